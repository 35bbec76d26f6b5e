// The two matrix products, as register tiles.
//
// A *strip* is a few queries side by side, one in each lane of two vectors, or of one. Its scores and weights lie key
// by key, its sums dimension by dimension:
//
//            lanes: queries                       lanes: queries
//          +----------------+                   +----------------+
//   key j  | scores[j][r]   |     dimension d   | sums[d][r]     |
//          +----------------+                   +----------------+
//
// Both products are then the same outer-product loop: a scalar of keys or values, broadcast, times a vector of
// queries or weights. Keys and values are read as they lie; nothing but the queries is ever packed.
#pragma once

#include <array>

#include "highest.hpp"
#include "prefetch.hpp"

namespace headwise {
namespace {

// The same vectors, one across a strip instead of two: for the rows left over at the end of a range.
template <class S>
struct Half : S {
  static constexpr int panel_height = 12;
};

template <class S>
constexpr int kVectors = 2;  // vectors across a strip
template <class S>
constexpr int kVectors<Half<S>> = 1;

template <class S>
constexpr int kStrip = kVectors<S> * S::width;  // queries in a strip

// A carry that keeps what is there.
template <class S>
inline const typename S::Element* ones() {
  static constexpr auto all = [] {
    std::array<typename S::Element, kStrip<S>> numbers;
    numbers.fill(1);
    return numbers;
  }();
  return all.data();
}

// What becomes of a product's sums.
template <class S>
struct Ending {
  using T = typename S::Element;
  using V = typename S::Vector;
  const T* carry = nullptr;  // for each lane what `out` is multiplied by before the sum is added to it
  Highest<S> highest = {};

  template <int height>
  [[gnu::always_inline]] void end(T* out, V (&sums)[height][kVectors<S>]) const {
    for (int v = 0; v < kVectors<S>; ++v) {
      T* place = out + v * S::width;
      if (carry)
#pragma GCC unroll 16
        for (int h = 0; h < height; ++h)
          sums[h][v] = S::fma(S::load(place + h * kStrip<S>), S::load(carry + v * S::width), sums[h][v]);
      if (highest.maximum) find_highest<height>(out, v, sums);
#pragma GCC unroll 16
      for (int h = 0; h < height; ++h) S::store(place + h * kStrip<S>, sums[h][v]);
    }
  }

 private:
  template <int height>
  [[gnu::always_inline]] void find_highest(const T* out, int v, const V (&sums)[height][kVectors<S>]) const {
    static_assert(height <= kNear);
    const V before = highest.maximum[v];
    V now = before;
#pragma GCC unroll 16
    for (int h = 0; h < height; ++h) now = S::max(sums[h][v], now);
    highest.maximum[v] = now;
    if (highest.where) note_risen<S>(before, now, (out - highest.scores) / kStrip<S>, highest.where + v * S::width);
  }
};

// out[h, r] = Σ_k left[h, k] · right[k, r], or out[h, r] · carry[r] + that sum.     "hk,kr->hr"
// left[h, k] is at left[h · row + k · step]; right has kStrip columns.
template <class S, int height>
[[gnu::always_inline]] inline void panel(const typename S::Element* left, Index row, Index step, Index depth,
                                         const typename S::Element* right, const Ending<S>& ending,
                                         typename S::Element* out, Prefetcher& ahead) {
  using V = typename S::Vector;
  V sums[height][kVectors<S>];
#pragma GCC unroll 16
  for (int h = 0; h < height; ++h)
    for (int v = 0; v < kVectors<S>; ++v) sums[h][v] = S::set(0);
  for (Index k = 0; k < depth;)
    ahead.steps(depth - k, [&](Index count, const char* line, Index stride) {
      for (k += count; count > 0; --count, line += stride, left += step, right += kStrip<S>) {
        V lanes[kVectors<S>];
        for (int v = 0; v < kVectors<S>; ++v) lanes[v] = S::load(right + v * S::width);
        __builtin_prefetch(line, 0, 2);
#pragma GCC unroll 16
        for (int h = 0; h < height; ++h) {
          const V scalar = S::set(left[h * row]);
          for (int v = 0; v < kVectors<S>; ++v) sums[h][v] = S::fma(scalar, lanes[v], sums[h][v]);
        }
      }
    });
  ending.template end<height>(out, sums);
}

// Panels of the full height from the top, then of 8, 4, 2 and 1: `height` rows of `out` in all. Low panels leave the
// multipliers waiting for one another, so that 16 rows are better cut into 8 and 8 than into 12 and 4.
template <class S, int rows>
[[gnu::always_inline]] inline void panels_of(const typename S::Element*& left, Index row, Index step, Index depth,
                                             const typename S::Element* right, const Ending<S>& ending,
                                             typename S::Element*& out, Index& height, Prefetcher& ahead) {
  constexpr bool splits = rows > 8;
  for (; height >= rows && !(splits && 16 <= height && height < rows + 8); height -= rows) {
    panel<S, rows>(left, row, step, depth, right, ending, out, ahead);
    left += rows * row;
    out += rows * kStrip<S>;
  }
}

template <class S>
[[gnu::always_inline]] inline void product(const typename S::Element* left, Index row, Index step, Index height,
                                           Index depth, const typename S::Element* right, const Ending<S>& ending,
                                           typename S::Element* out, Prefetcher& ahead) {
  panels_of<S, S::panel_height>(left, row, step, depth, right, ending, out, height, ahead);
  if constexpr (S::panel_height > 8) panels_of<S, 8>(left, row, step, depth, right, ending, out, height, ahead);
  panels_of<S, 4>(left, row, step, depth, right, ending, out, height, ahead);
  panels_of<S, 2>(left, row, step, depth, right, ending, out, height, ahead);
  panels_of<S, 1>(left, row, step, depth, right, ending, out, height, ahead);
}

// Dimensions that are added up in one chain; longer ones are summed in parts, as errors grow with a chain's length.
constexpr Index kChain = 256;

// The dimensions behind the first chain, added to the scores. Apart, so that the common case stays small.
template <class S>
[[gnu::noinline]] void add_chains(Tile<typename S::Element> key, Index keys, Index head_dim,
                                  const typename S::Element* query, typename S::Element* scores,
                                  const Highest<S>& highest, Prefetcher& ahead) {
  for (Index d = kChain; d < head_dim; d += kChain)
    product<S>(key.data + d, key.stride, 1, keys, smaller(head_dim - d, kChain), query + d * kStrip<S>,
               {ones<S>(), d + kChain < head_dim ? Highest<S>{} : highest}, scores, ahead);
}

// scores[j, r] = Σ_d key[j, d] · query[d, r], and the largest of each lane                  "jd,dr->jr"
template <class S>
inline void score_strip(Tile<typename S::Element> key, Index keys, Index head_dim, const typename S::Element* query,
                        typename S::Element* scores, typename S::Vector* maximum, typename S::Element* where,
                        Prefetcher& ahead) {
  for (int v = 0; v < kVectors<S>; ++v) maximum[v] = S::set(-typename S::Element(__builtin_inf()));
  const Highest<S> highest{maximum, where, scores};
  const bool chained = head_dim > kChain;
  product<S>(key.data, key.stride, 1, keys, smaller(head_dim, kChain), query,
             {nullptr, chained ? Highest<S>{} : highest}, scores, ahead);
  if (chained) add_chains<S>(key, keys, head_dim, query, scores, highest, ahead);
}

// Keys whose weighted values are added up in one chain. A tile has two of them.
constexpr Index kValueChain = kTileKeys / 2;

// Calls `use(first, count, carry)` for each chain of a tile's keys, numbered from the first one that is in view. Chains
// begin where they always do in a tile, and where the tile's first one is not in view its carry is by itself: a row's
// sums have the same bits whatever its neighbours see.
template <class S, class Use>
inline void by_chains(Keys keys, Index value_dim, const typename S::Element* carry, typename S::Element* sums,
                      Use use) {
  if (carry && keys.begin % kTileKeys >= kValueChain) {
    for (Index k = 0; k < value_dim * kStrip<S>; k += S::width)
      S::store(sums + k, S::mul(S::load(sums + k), S::load(carry + k % kStrip<S>)));
    carry = ones<S>();
  }
  for (Index j = keys.begin; j < keys.end; carry = ones<S>()) {
    const Index end = smaller(keys.end, (j / kValueChain + 1) * kValueChain);
    use(j - keys.begin, end - j, carry);
    j = end;
  }
}

// sums[d, r] = sums[d, r] · carry[r] + Σ_j value[j, d] · weights[j, r], or only the latter           "jd,jr->dr"
template <class S>
[[gnu::noinline]] void add_chain(Tile<typename S::Element> value, Index keys, Index value_dim,
                                 const typename S::Element* weights, const typename S::Element* carry,
                                 typename S::Element* sums, Prefetcher& ahead) {
  product<S>(value.data, 1, value.stride, value_dim, keys, weights, {carry}, sums, ahead);
}

template <class S>
inline void add_weighted_values(Tile<typename S::Element> value, Keys keys, Index value_dim,
                                const typename S::Element* weights, const typename S::Element* correction,
                                typename S::Element* sums, Prefetcher& ahead) {
  by_chains<S>(keys, value_dim, correction, sums, [&](Index first, Index count, const auto* carry) {
    add_chain<S>({value.data + first * value.stride, value.stride}, count, value_dim, weights + first * kStrip<S>,
                 carry, sums, ahead);
  });
}

// The same, leaving out every weight marked as hidden (negative), so that a NaN or an infinity in a value that
// a query does not see cannot reach its sum as 0 · NaN.
template <class S>
inline void add_visible_values(Tile<typename S::Element> value, Keys keys, Index value_dim,
                               const typename S::Element* weights, const typename S::Element* correction,
                               typename S::Element* sums) {
  using V = typename S::Vector;
  by_chains<S>(keys, value_dim, correction, sums, [&](Index first, Index count, const auto* carry) {
    for (Index d = 0; d < value_dim; ++d)
      for (int v = 0; v < kStrip<S>; v += S::width) {
        V total = S::set(0);
        for (Index j = first; j < first + count; ++j) {
          const V weight = S::load(weights + j * kStrip<S> + v);
          const V more = S::fma(S::set(value.data[j * value.stride + d]), weight, total);
          total = S::select(S::less(weight, S::set(0)), total, more);
        }
        typename S::Element* place = sums + d * kStrip<S> + v;
        if (carry) total = S::fma(S::load(place), S::load(carry + v), total);
        S::store(place, total);
      }
  });
}

}  // namespace
}  // namespace headwise
