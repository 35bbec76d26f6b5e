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
  const Index columns = c.block_columns(a);
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

// The weight of a row on the keys of a stripe: `next` is the place of the first one that was not passed yet.
template <class S>
inline void collect_stripe(const StripWeights<S>& w, Index r, const Index* keys, Index last, Index& next,
                           double& found) {
  for (; next < last && keys[next] < w.keys.end; ++next)
    if (keys[next] >= w.keys.begin) found += double(w.of(keys[next])[r]);
}

}  // namespace
}  // namespace headwise
