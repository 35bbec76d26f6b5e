// One tile of scores becomes weights, and the observers look on.
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
inline typename S::Vector weigh(const typename S::Element* score, typename S::Element* place, int v,
                                typename S::Vector maximum, const Exponent<S>& exponent, TileSums<S, vectors>& sums) {
  using V = typename S::Vector;
  const V below = exponent.clip(S::sub(S::load(score), maximum));
  const V weight = exp2<S>(below, exponent);
  S::store(place, weight);
  sums.total[v] = S::add(sums.total[v], weight);
  if constexpr (observed) sums.scored[v] = S::fma(weight, below, sums.scored[v]);
  return weight;
}

// One pass over `count` vectors (times `vectors` across): scores become weights, which may take their places.
template <class S, int vectors, bool observed>
struct Pass {
  using V = typename S::Vector;
  using T = typename S::Element;
  const T* scores;
  T* weights;
  Index count;
  Index begin;  // where the first one is in its tile
  V maximum[vectors];
  Exponent<S> exponent;
  Distances<S, vectors> distances;
  bool sided = false;            // lanes are queries and vectors are keys: up to `before` all of them lie before their
  Index before = 0, behind = 0;  // lanes' positions, from `behind` on behind them
  Index done = 0;

  // Weights are added up in runs of 8 keys, runs of 64, and then run by run: the error of a sum grows with the
  // length of its chains. Runs begin at multiples of their length, wherever a row's neighbours begin.
  Index end_of_run(Index run) const { return smaller(count, done + run - ((begin + done) & (run - 1))); }

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

  // Where lanes are keys, and not queries, each is on a side of its own.
  TileSums<S, vectors> sum_keys(Index end) {
    if constexpr (!observed) return sum_weights<Distance::none>(end).sums;
    if (!sided) return sum_weights<Distance::each>(end).sums;
    const Index first = (begin + done) / 8 * 8, last = first + 8;
    if (last <= before || first >= behind) return sum_sided<Distance::side>(end, first, last);
    return sum_sided<Distance::both>(end, first, last);
  }

  // What is added up for the distances: the weight times its distance, the sum of all weights so far, or both.
  enum class Distance { none, each, side, both };

  struct RunSums {
    TileSums<S, vectors> sums = TileSums<S, vectors>::zero();
    V running[vectors];
  };

  template <Distance distance>
  RunSums sum_weights(Index end) {
    constexpr bool each = distance == Distance::each || distance == Distance::both;
    constexpr bool side = distance == Distance::side || distance == Distance::both;
    RunSums run;
    auto& sums = run.sums;
    if constexpr (side)
      for (int v = 0; v < vectors; ++v) run.running[v] = S::set(0);
    if constexpr (each) distances.passed = S::mul(distances.step, S::set(T(begin + done)));
    const T* score = scores + done * vectors * S::width;
    T* place = weights + done * vectors * S::width;
    for (; done < end; ++done, score += vectors * S::width, place += vectors * S::width) {
      for (int v = 0; v < vectors; ++v) {
        const V weight =
            weigh<S, vectors, observed>(score + v * S::width, place + v * S::width, v, maximum[v], exponent, sums);
        if constexpr (side) run.running[v] = S::add(run.running[v], sums.total[v]);
        if constexpr (each) sums.distant[v] = S::fma(weight, distances.size(v), sums.distant[v]);
      }
      if constexpr (each) distances.next();
    }
    return run;
  }

  // Where all keys of a run lie on one side of a lane's position no distance of a single key is needed. The sum of the
  // totals so far holds the first weight as often as there are keys, the last one once: it is Σ p · (last - k), and a
  // distance is that of `last` and so much more, or less. Each lane for itself, and as if the run were whole: what its
  // neighbours see makes no difference.
  template <Distance distance>
  TileSums<S, vectors> sum_sided(Index end, Index first, Index last) {
    auto [sums, running] = sum_weights<distance>(end);
    distances.passed = S::set(T(last));
    for (int v = 0; v < vectors; ++v) {
      for (Index k = begin + end; k < last; ++k) running[v] = S::add(running[v], sums.total[v]);
      const V far = distances.size(v), total = sums.total[v];
      if constexpr (distance == Distance::side) {
        const V step = S::set(last <= before ? T(1) : T(-1));
        sums.distant[v] = S::fma(far, total, S::mul(step, running[v]));
      } else {
        const V offset = distances.offset[v], behind_it = S::fma(far, total, S::sub(S::set(0), running[v]));
        const V within = S::select(S::less(S::set(T(first)), offset), sums.distant[v], behind_it);
        sums.distant[v] = S::select(S::less(offset, S::set(T(last))), within, S::fma(far, total, running[v]));
      }
    }
    return sums;
  }
};

}  // namespace
}  // namespace headwise
