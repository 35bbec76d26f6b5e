// The largest weights of each row and their keys, kept in descending order while tiles pass.
#pragma once

#include "collectors.hpp"

namespace headwise {
namespace {

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
    T largest[kMostBounded * S::width];
    for (Index k = 0; k < top.count; ++k)
      S::store(largest + k * S::width, S::load(top.weights + k * kStrip<S> + v * S::width));
    for (Index g = 0; g < count; ++g) insert_descending<S>(groups[g], largest, top.count, S::width);
    return S::load(largest + (top.count - 1) * S::width);
  }
};

template <class S>
inline void collect_top(const StripWeights<S>& w, const TopKeys<S>& top) {
  for (int v = 0; v < kVectors<S>; ++v) TopSearch<S>{w, top, v, {}}.search();
}

}  // namespace
}  // namespace headwise
