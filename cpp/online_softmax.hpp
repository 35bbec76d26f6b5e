// One tile of scores becomes weights, in place, and the observers look on.
//
// Vectors of scores follow one another in memory. In a strip each lane is a query and each vector a key; for a
// single row each lane is a key. The code is the same: only the positions of lanes and vectors differ.
#pragma once

#include "highest.hpp"
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

// p = e^(score - maximum), for one vector.      scored: Σ p · (score - maximum)
template <class S, int vectors, bool observed>
inline typename S::Vector weigh(typename S::Element* scores, int v, typename S::Vector maximum,
                                const Exponent<S>& exponent, TileSums<S, vectors>& sums) {
  using V = typename S::Vector;
  const V below = exponent.clip(S::sub(S::load(scores), maximum));
  const V weight = exp2<S>(below, exponent);
  S::store(scores, weight);
  sums.total[v] = S::add(sums.total[v], weight);
  if constexpr (observed) sums.scored[v] = S::fma(weight, below, sums.scored[v]);
  return weight;
}

// One pass over `count` vectors (times `vectors` across): scores become weights.
template <class S, int vectors, bool observed>
struct Pass {
  using V = typename S::Vector;
  using T = typename S::Element;
  T* scores;
  Index count;
  Index phase;  // keys before the first one, modulo the longest run
  V maximum[vectors];
  Exponent<S> exponent;
  Distances<S, vectors> distances;
  Index before = 0, behind = kUnbounded;  // up to `before` all keys lie before their lanes' positions, from `behind` on
                                          // behind them
  Index done = 0;

  // Weights are added up in runs of 8 keys, runs of 64, and then run by run: the error of a sum grows with the
  // length of its chains. Runs begin at multiples of their length, wherever a row's neighbours begin.
  Index end_of_run(Index run) const { return smaller(count, done + run - ((done + phase) & (run - 1))); }

  TileSums<S, vectors> sum_all() {
    auto sums = TileSums<S, vectors>::zero();
    while (done < count) sums.add(sum_run(end_of_run(64)));
    return sums;
  }

 private:
  TileSums<S, vectors> sum_run(Index end) {
    auto sums = TileSums<S, vectors>::zero();
    while (done < end) sums.add(sum_keys(end_of_run(8)));
    return sums;
  }

  TileSums<S, vectors> sum_keys(Index end) {
    if constexpr (observed)
      if (end <= before || done >= behind) return sum_one_side(end);
    return sum_weights<false>(end);
  }

  // For every key its weight, and its weight times its distance or, for one side, the sum of all weights so far.
  template <bool one_side>
  TileSums<S, vectors> sum_weights(Index end) {
    auto sums = TileSums<S, vectors>::zero();
    if constexpr (observed && !one_side) distances.passed = S::mul(distances.step, S::set(T(done)));
    T* place = scores + done * vectors * S::width;
    for (; done < end; ++done, place += vectors * S::width) {
      for (int v = 0; v < vectors; ++v) {
        const V weight = weigh<S, vectors, observed>(place + v * S::width, v, maximum[v], exponent, sums);
        if constexpr (observed && one_side) sums.distant[v] = S::add(sums.distant[v], sums.total[v]);
        if constexpr (observed && !one_side) sums.distant[v] = S::fma(weight, distances.size(v), sums.distant[v]);
      }
      if constexpr (observed && !one_side) distances.next();
    }
    return sums;
  }

  // Where all keys of a run lie on one side no distance of a single key is needed. The sum of the totals so far holds
  // the first weight as often as there are keys, the last one once: it is Σ p · (end - k), and a distance is that of
  // the end and so much more, or less.
  TileSums<S, vectors> sum_one_side(Index end) {
    const V step = end <= before ? distances.step : S::sub(S::set(0), distances.step);
    auto sums = sum_weights<true>(end);
    distances.passed = S::mul(distances.step, S::set(T(end)));
    for (int v = 0; v < vectors; ++v)
      sums.distant[v] = S::fma(distances.size(v), sums.total[v], S::mul(step, sums.distant[v]));
    return sums;
  }
};

}  // namespace
}  // namespace headwise
