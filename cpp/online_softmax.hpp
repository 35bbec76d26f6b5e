// One tile of scores becomes weights, in place, and the observers look on.
//
// Vectors of scores follow one another in memory. In a strip each lane is a query and each vector a key; for a
// single row each lane is a key. The code is the same: only the positions of lanes and vectors differ.
#pragma once

#include "observers.hpp"

namespace headwise {
namespace {

// What one pass over a tile adds up, per lane.
template <class S, int vectors>
struct TileSums {
  typename S::Vector total[vectors], scored[vectors], distant[vectors];

  static TileSums zero() {
    TileSums sums;
    for (int v = 0; v < vectors; ++v) sums.total[v] = sums.scored[v] = sums.distant[v] = S::set(0);
    return sums;
  }
  void add(const TileSums& more) {
    for (int v = 0; v < vectors; ++v) {
      total[v] = S::add(total[v], more.total[v]);
      scored[v] = S::add(scored[v], more.scored[v]);
      distant[v] = S::add(distant[v], more.distant[v]);
    }
  }
};

// The largest score of each lane.
template <class S, int vectors>
inline void largest(const typename S::Element* scores, Index count, typename S::Vector* maximum) {
  for (int v = 0; v < vectors; ++v) maximum[v] = S::set(-typename S::Element(__builtin_inf()));
  for (Index k = 0; k < count; ++k)
    for (int v = 0; v < vectors; ++v) maximum[v] = S::max(S::load(scores + (k * vectors + v) * S::width), maximum[v]);
}

// For each lane the first of `count` vectors that holds the lane's maximum.
template <class S, int vectors>
inline void find_largest(const typename S::Element* scores, Index count, const typename S::Vector* maximum,
                         typename S::Element* where) {
  typename S::Vector found[vectors];
  for (int v = 0; v < vectors; ++v) found[v] = S::set(-1);
  for (Index k = count - 1; k >= 0; --k)
    for (int v = 0; v < vectors; ++v) {
      const auto below = S::less(S::load(scores + (k * vectors + v) * S::width), maximum[v]);
      found[v] = S::select(below, found[v], S::set(typename S::Element(k)));
    }
  for (int v = 0; v < vectors; ++v) S::store(where + v * S::width, found[v]);
}

// p = e^(score - maximum), for one vector.      scored: Σ p · (score - maximum)      distant: Σ p · |distance|
template <class S, int vectors, bool observed>
inline void weigh(typename S::Element* scores, int v, typename S::Vector maximum, const Exponent<S>& exponent,
                  const Distances<S, vectors>& distances, TileSums<S, vectors>& sums) {
  using V = typename S::Vector;
  const V below = exponent.clip(S::sub(S::load(scores), maximum));
  const V weight = exp2<S>(below, exponent);
  S::store(scores, weight);
  sums.total[v] = S::add(sums.total[v], weight);
  if constexpr (observed) {
    sums.scored[v] = S::fma(weight, below, sums.scored[v]);
    sums.distant[v] = S::fma(weight, distances.size(v), sums.distant[v]);
  }
}

// One pass over `count` vectors (times `vectors` across): scores become weights.
template <class S, int vectors, bool observed>
struct Pass {
  typename S::Element* scores;
  Index count;
  Index phase;  // keys before the first one, modulo the longest run
  typename S::Vector maximum[vectors];
  Exponent<S> exponent;
  Distances<S, vectors> distances;
  Index done = 0;

  // Weights are added up in runs of 8 keys, runs of 64, and then run by run: the error of a sum grows with the
  // length of its chains. Runs begin at multiples of their length, wherever a row's neighbours begin.
  template <Index run>
  TileSums<S, vectors> sum_run() {
    auto sums = TileSums<S, vectors>::zero();
    const Index end = smaller(count, done + run - (done + phase) % run);
    while (done < end) {
      if constexpr (run > 8) {
        sums.add(sum_run<run / 8>());
      } else {
        for (int v = 0; v < vectors; ++v)
          weigh<S, vectors, observed>(scores + (done * vectors + v) * S::width, v, maximum[v], exponent, distances,
                                      sums);
        if constexpr (observed) distances.next();
        ++done;
      }
    }
    return sums;
  }

  TileSums<S, vectors> sum_all() {
    auto sums = TileSums<S, vectors>::zero();
    while (done < count) sums.add(sum_run<64>());
    return sums;
  }
};

}  // namespace
}  // namespace headwise
