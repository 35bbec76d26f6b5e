// What is added up from a strip's final weights of a tile: queries in lanes, keys one by one. Lanes without a row, and
// keys that a row does not see, have the weight 0.
#pragma once

#include "collection.hpp"
#include "row_products.hpp"

namespace headwise {
namespace {

// Lanes shift to shift + width of two vectors, one behind the other.
template <class S, int shift, int... k>
inline typename S::Vector slide(typename S::Vector a, typename S::Vector b, std::integer_sequence<int, k...>) {
  if constexpr (S::width == 1) {
    return shift ? b : a;
  } else {
    return __builtin_shufflevector(a, b, (k + shift)...);
  }
}
template <class S, int shift>
inline typename S::Vector slide(typename S::Vector a, typename S::Vector b) {
  return slide<S, shift>(a, b, std::make_integer_sequence<int, S::width>());
}

// The largest of a vector's lanes.
template <class S, int half = S::width / 2>
inline typename S::Element largest_lane(typename S::Vector v) {
  if constexpr (half > 0) return largest_lane<S, half / 2>(S::max(v, slide<S, half>(v, v)));
  typename S::Element lane[S::width];
  S::store(lane, v);
  return lane[0];
}

// The weights of a strip's rows and some keys, from `queries.begin` and `keys.begin` on.
template <class S>
struct StripWeights {
  using T = typename S::Element;
  const T* weights;  // [keys][kStrip]
  Keys queries, keys;

  const T* of(Index key) const { return weights + (key - keys.begin) * kStrip<S>; }
};

// Ones in the lanes of some queries, zeros in the others.
template <class S>
struct Chosen {
  using V = typename S::Vector;
  V factor[kVectors<S>];

  Chosen(Keys queries, Keys of) {
    typename S::Element lane[kStrip<S>];
    for (Index r = 0; r < kStrip<S>; ++r) lane[r] = of.begin <= queries.begin + r && queries.begin + r < of.end;
    for (int v = 0; v < kVectors<S>; ++v) factor[v] = S::load(lane + v * S::width);
  }
  V sum(const V (&lanes)[kVectors<S>]) const {
    V total = S::set(0);
    for (int v = 0; v < kVectors<S>; ++v)
      total = S::add(total, S::select(S::less(S::set(0), factor[v]), lanes[v], S::set(0)));
    return total;
  }
};

// received[j] += Σ_r weights[j, r], of the chosen queries                                     "jr->j"
template <class S>
inline void collect_received(const StripWeights<S>& w, const Chosen<S>* chosen, typename S::Element* received) {
  using V = typename S::Vector;
  for (Index j = w.keys.begin; j < w.keys.end; j += S::width) {
    const Index count = smaller<Index>(S::width, w.keys.end - j);
    V rows[S::width];
    for (Index k = 0; k < S::width; ++k) {
      const typename S::Element* from = w.of(j + smaller(k, count - 1));
      const V lanes[] = {S::load(from), S::load(from + S::width)};
      rows[k] = chosen ? chosen->sum(lanes) : S::add(lanes[0], lanes[1]);
    }
    typename S::Element sums[S::width];
    S::store(sums, sum_each<S>(rows));
    for (Index k = 0; k < count; ++k) received[j + k] += sums[k];
  }
}

// The sums along the diagonals of as many keys as a vector has lanes: `load(t)` gives a vector of queries for key t,
// and query r of key t goes to place[width - 1 - t + r].
template <class S, class Load, int... t>
[[gnu::always_inline]] inline void add_diagonals(typename S::Element* place, Load load,
                                                 std::integer_sequence<int, t...>) {
  using V = typename S::Vector;
  const V zero = S::set(0);
  V low = zero, high = zero;
  const auto add = [&](V lanes, auto shift) {
    low = S::add(low, slide<S, shift()>(zero, lanes));
    high = S::add(high, slide<S, shift()>(lanes, zero));
  };
  (add(load(t), std::integral_constant<int, t + 1>()), ...);
  S::store(place, S::add(S::load(place), low));
  S::store(place + S::width, S::add(S::load(place + S::width), high));
}

// offsets[r - j] += weights[j, r], counted from that of the first query and the first key. What the second vector has
// for a key lies where the first one's is for the key `width` before.
template <class S>
inline void collect_offsets(const StripWeights<S>& w, typename S::Element* offsets) {
  using V = typename S::Vector;
  constexpr auto lanes = std::make_integer_sequence<int, S::width>();
  const Index count = w.keys.end - w.keys.begin;
  for (Index j = -S::width; j < count; j += S::width) {
    typename S::Element* place = offsets - (j + S::width - 1);
    const auto* first = w.weights + j * kStrip<S>;
    const auto* second = first + S::width * kStrip<S> + S::width;
    if (j >= 0 && j + 2 * S::width <= count) {
      add_diagonals<S>(
          place, [&](int t) { return S::add(S::load(first + t * kStrip<S>), S::load(second + t * kStrip<S>)); }, lanes);
    } else {
      const auto load = [&](int t) {
        const V one = 0 <= j + t && j + t < count ? S::load(first + t * kStrip<S>) : S::set(0);
        return j + t + S::width < count ? S::add(one, S::load(second + t * kStrip<S>)) : one;
      };
      add_diagonals<S>(place, load, lanes);
    }
  }
}

// Sum and largest of each block of queries and keys; `sums` and `maxima` are a head's.
template <class S>
inline void collect_blocks(const Arguments& a, const Collection& c, const StripWeights<S>& w, typename S::Element* sums,
                           typename S::Element* maxima) {
  using T = typename S::Element;
  using V = typename S::Vector;
  const Index columns = (a.kv_len + c.block_keys - 1) / c.block_keys;
  for (Index j = w.keys.begin; j < w.keys.end;) {
    const Index column = j / c.block_keys, end = smaller(w.keys.end, (column + 1) * c.block_keys);
    V sum[kVectors<S>], most[kVectors<S>];
    for (int v = 0; v < kVectors<S>; ++v) sum[v] = most[v] = S::set(0);
    for (; j < end; ++j)
      for (int v = 0; v < kVectors<S>; ++v) {
        const V lanes = S::load(w.of(j) + v * S::width);
        sum[v] = S::add(sum[v], lanes);
        most[v] = S::max(lanes, most[v]);
      }
    T sum_of[kStrip<S>], most_of[kStrip<S>];
    for (int v = 0; v < kVectors<S>; ++v) {
      S::store(sum_of + v * S::width, sum[v]);
      S::store(most_of + v * S::width, most[v]);
    }
    for (Index i = w.queries.begin; i < w.queries.end;) {
      const Index row = i / c.block_queries, last = smaller(w.queries.end, (row + 1) * c.block_queries);
      T total = 0, largest = 0;
      if (last - i == kStrip<S>) {
        total = S::sum(S::add(sum[0], sum[1]));
        largest = largest_lane<S>(S::max(most[0], most[1]));
        i = last;
      }
      for (; i < last; ++i) {
        total += sum_of[i - w.queries.begin];
        largest = larger(largest, most_of[i - w.queries.begin]);
      }
      T& place = maxima[row * columns + column];
      sums[row * columns + column] += total;
      place = total == total ? larger(place, largest) : total;
    }
  }
}

// The largest weights of each lane, in descending order, and their keys, whose bits stand in place of a number's.
template <class S>
struct TopKeys {
  using T = typename S::Element;
  using V = typename S::Vector;
  T *weights = nullptr, *keys = nullptr;  // [count][kStrip]
  Index count = 0;

  static TopKeys take(Scratch& scratch, Index count) {
    T* weights = scratch.take<T>(count * kStrip<S>);
    return {weights, scratch.take<T>(count * kStrip<S>), count};
  }

  // `least`: weights up to these, one for each lane, are not among the largest.
  void init(const T* least) const {
    for (Index k = 0; k < count * kStrip<S>; ++k) {
      weights[k] = least[k % kStrip<S>];
      keys[k] = bits_of(-1);
    }
  }

  // Lanes with a weight larger than their last one put it behind those that are as large.
  void insert(V weight, Index key, int v) const {
    const V bits = S::set(bits_of(key));
    for (Index k = count; k-- > 0;) {
      T *place = weights + k * kStrip<S> + v * S::width, *of = keys + k * kStrip<S> + v * S::width;
      const V here = S::load(place), key_here = S::load(of);
      const auto falls = S::less(here, weight);
      V next = weight, key_next = bits;
      if (k > 0) {
        const V above = S::load(place - kStrip<S>);
        const auto passed = S::less(above, weight);
        next = S::select(passed, above, weight);
        key_next = S::select(passed, S::load(of - kStrip<S>), bits);
      }
      S::store(place, S::select(falls, next, here));
      S::store(of, S::select(falls, key_next, key_here));
    }
  }

  // The same for one lane.
  void insert_one(T weight, Index key, Index r) const {
    Index k = (count - 1) * kStrip<S> + r;
    for (; k >= kStrip<S> && weights[k - kStrip<S>] < weight; k -= kStrip<S>) {
      weights[k] = weights[k - kStrip<S>];
      std::memcpy(keys + k, keys + k - kStrip<S>, sizeof *keys);
    }
    weights[k] = weight;
    keys[k] = bits_of(key);
  }

  // Writes lane r.
  void leave(Index r, T* top_weights, Index* top_keys) const {
    for (Index k = 0; k < count; ++k) {
      Bits bits;
      std::memcpy(&bits, keys + k * kStrip<S> + r, sizeof bits);
      top_keys[k] = Index(bits);
      top_weights[k] = bits < 0 ? 0 : weights[k * kStrip<S> + r];
    }
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static T bits_of(Index key) {
    const Bits bits = Bits(key);
    T number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
};

// A little less than a weight, and 0 for the smallest.
template <class S>
inline typename S::Vector just_below(typename S::Vector weight) {
  using T = typename S::Element;
  constexpr bool single = sizeof(T) == 4;
  constexpr T tiny = single ? T(0x1p-124) : T(0x1p-1020), below = 1 - (single ? T(0x1p-22) : T(0x1p-51));
  return S::select(S::less(S::set(tiny), weight), S::mul(weight, S::set(below)), S::set(0));
}

// The largest of each group of keys is looked at first: most have nothing larger than what is there. Where many have,
// as in the first tiles of a short text, the largest of several groups tell how large a weight must be at least.
template <class S>
struct TopSearch {
  using T = typename S::Element;
  using V = typename S::Vector;
  static constexpr Index kGroup = 16, kGroups = kTileKeys / kGroup, kMostBounded = 16;
  static constexpr int kOneByOne = 2;  // so many lanes are put in one by one

  const StripWeights<S>& w;
  const TopKeys<S>& top;
  int v;
  V groups[kGroups];

  void search() {
    const Index count = (w.keys.end - w.keys.begin + kGroup - 1) / kGroup;
    V least = last();
    int rising = 0;
    for (Index g = 0; g < count; ++g) {
      groups[g] = S::set(0);
      for (Index j = group(g).begin; j < group(g).end; ++j) groups[g] = S::max(weights(j), groups[g]);
      rising += __builtin_popcount(S::lanes(S::less(least, groups[g])));
    }
    if (rising == 0) return;
    if (rising > 3 * S::width && top.count <= kMostBounded) least = S::max(just_below<S>(bound_of(count)), least);
    for (Index g = 0; g < count; ++g)
      if (S::lanes(S::less(least, groups[g])))
        for (Index j = group(g).begin; j < group(g).end; ++j)
          if (const unsigned lanes = S::lanes(S::less(least, weights(j)))) {
            put_in(j, lanes);
            least = S::max(last(), least);
          }
  }

 private:
  V weights(Index j) const { return S::load(w.of(j) + v * S::width); }
  V last() const { return S::load(top.weights + (top.count - 1) * kStrip<S> + v * S::width); }
  Keys group(Index g) const {
    return {w.keys.begin + g * kGroup, smaller(w.keys.end, w.keys.begin + (g + 1) * kGroup)};
  }

  void put_in(Index j, unsigned lanes) const {
    if (__builtin_popcount(lanes) > kOneByOne) return top.insert(weights(j), j, v);
    for (; lanes; lanes &= lanes - 1) {
      const Index r = v * S::width + __builtin_ctz(lanes);
      top.insert_one(w.of(j)[r], j, r);
    }
  }

  // At least as many keys as are wanted have this weight.
  V bound_of(Index count) const {
    V largest[kMostBounded];
    for (Index k = 0; k < top.count; ++k) largest[k] = S::load(top.weights + k * kStrip<S> + v * S::width);
    for (Index g = 0; g < count; ++g) {
      V falling = groups[g];
      for (Index k = 0; k < top.count; ++k) {
        const V here = largest[k];
        largest[k] = S::max(falling, here);
        falling = S::select(S::less(here, falling), here, falling);
      }
    }
    return largest[top.count - 1];
  }
};

template <class S>
inline void collect_top(const StripWeights<S>& w, const TopKeys<S>& top) {
  for (int v = 0; v < kVectors<S>; ++v) TopSearch<S>{w, top, v, {}}.search();
}

// The weight of a row on the keys of a stripe: `next` is the place of the first one that was not passed yet.
template <class S>
inline void collect_stripe(const StripWeights<S>& w, Index r, const Index* keys, Index last, Index& next,
                           double& found) {
  for (; next < last && keys[next] < w.keys.end; ++next)
    if (keys[next] >= w.keys.begin) found += double(w.of(keys[next])[r]);
}

}  // namespace
}  // namespace headwise
