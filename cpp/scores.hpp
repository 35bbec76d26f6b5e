// From dot products to scores, in the contract's order: scale, softcap, bias, mask.
#pragma once

#include <algorithm>

#include "vector_math.hpp"
#include "visibility.hpp"

namespace headwise {
namespace {

// The units of scores: those that cost least and lose nothing.
//
//   plain         dot products of the scale's sign; the scale's size enters with the exponent, so the difference of
//                 two scores is taken before it is scaled, and equal dot products stay equal
//   with a cap    scaled to multiples of the cap, then capped; natural units
//   with a bias   scaled first, as the contract's order has it; by a power of two less where the scale is so large
//                 that finite scores could overflow
//
// natural units = natural · score;   base-2 exponent of a weight = exponent · (score - maximum)
template <class T>
struct Units {
  static constexpr bool single = sizeof(T) == 4;
  static constexpr double small = single ? 1e-30 : 1e-290, large = single ? 1e30 : 1e290;
  static constexpr double largest = single ? 1e37 : 1e307;

  T query = 1;      // factor of the packed queries: -1, 0 or 1
  T score = 1;      // factor of a dot product
  T cap = 0;        // 0: none
  double bias = 1;  // factor of a bias
  double natural = 1;
  double exponent;

  explicit Units(const Arguments& a) {
    const double size = a.scale < 0 ? -a.scale : a.scale;
    if (a.softcap > 0) {
      const double bound = larger(1 / largest, smaller(large, a.softcap));  // beyond, a cap hides nothing or all
      cap = T(bound);
      score = T(larger(-largest, smaller(largest, a.scale / bound)));
    } else if (a.biased() || (size > 0 && size < small)) {
      while (size / natural > large) natural *= 0x1p60;
      score = T(a.scale / natural);
      bias = 1 / natural;
    } else {
      query = T(a.scale > 0) - T(a.scale < 0);
      natural = size > 0 ? size : 1;
    }
    exponent = smaller(natural, single ? 1e38 : 1e307) * 1.4426950408889634074;
  }
};

// Positions of the vectors of a tile: the query's less the key's in the first one, and how much less in each next. What
// has been passed is counted apart: a far offset less 1 may round to itself, again and again.
template <class S, int vectors>
struct Distances {
  typename S::Vector offset[vectors];
  typename S::Vector step;
  typename S::Vector passed = S::set(0);

  typename S::Vector size(int v) const { return S::abs(S::sub(offset[v], passed)); }
  void next() { passed = S::add(passed, step); }
};

// A number in the working precision. A finite one stays finite, -1e300 in float32 too: only an infinite bias hides its
// key, and only a row that sees no key has an infinite lse.
template <class T>
inline T as_working(double x) {
  constexpr double most = sizeof(T) == 4 ? 3.4028234663852886e38 : 1.7976931348623157e308;
  return x - x != 0 ? T(x) : T(larger(-most, smaller(most, x)));
}

// Two biases of one score: -inf in either hides, and finite ones have a finite sum.
inline double sum_of_biases(double one, double other) {
  constexpr double most = 1.7976931348623157e308, hidden = -__builtin_inf();
  if (one == hidden || other == hidden) return hidden;
  const double sum = one + other;
  return one - one == 0 && other - other == 0 ? larger(-most, smaller(most, sum)) : sum;
}

// The table's biases of one row.
struct RelativeBias {
  const double* row;
  Index position, reach;

  RelativeBias(const Arguments& a, const Row& r)
      : row(a.relative_table + r.head * (2 * a.reach + 1) + a.reach), position(r.position), reach(a.reach) {}

  double at(Index j) const { return row[larger(-reach, smaller(reach, j - position))]; }

  // Calls `use(k, bias)` for each of some keys, numbered from 0: what lies within reach, and on either side of it.
  template <class Use>
  void each(Keys keys, Use use) const {
    const Index count = keys.end - keys.begin, first = keys.begin - position;
    const auto within = [&](Index k) { return larger<Index>(0, smaller(count, k)); };
    const Index near = within(-reach - first), far = within(reach + 1 - first);
    for (Index k = 0; k < near; ++k) use(k, row[-reach]);
    for (Index k = near; k < far; ++k) use(k, row[first + k]);
    for (Index k = far; k < count; ++k) use(k, row[reach]);
  }
};

// The biases of one row in the working precision: what the dense bias and the table, where given, add to its scores.
template <class T>
inline void fill_biases(const Arguments& a, Index item, const Row& row, Keys keys, double factor, T* biases) {
  const Index count = keys.end - keys.begin, step = a.bias.column;
  const auto set = [&](Index k, double bias) { biases[k] = as_working<T>(bias * factor); };
  if (!a.rows_biased()) return std::fill(biases, biases + count, T(0));
  if (!a.bias.data) return RelativeBias(a, row).each(keys, set);
  const char* dense = a.bias.at(item, row.head, row.query) + keys.begin * step;
  with_reader(a.bias, [&](auto reader) {
    if (a.relative_table) {
      const RelativeBias table(a, row);
      for (Index k = 0; k < count; ++k)
        set(k, sum_of_biases(double(reader.read(dense + k * step)), table.at(keys.begin + k)));
    } else if (factor == 1 && sizeof(reader.read(dense)) <= sizeof(T)) {
      copy_row(reader, dense, step, count, biases);
    } else {
      for (Index k = 0; k < count; ++k) set(k, double(reader.read(dense + k * step)));
    }
  });
}

// What is added to the scores of one row: its biases, and -inf for what it does not see.
template <class T>
inline void fill_addends(const Arguments& a, Index item, const Row& row, const Seen& seen, Keys keys, double factor,
                         T* addends) {
  constexpr T hidden = -T(__builtin_inf());
  fill_biases(a, item, row, keys, factor, addends);
  const Keys inner = common(seen.keys, keys);
  const Index count = keys.end - keys.begin, begin = smaller(count, inner.begin - keys.begin);
  const Index end = larger(begin, inner.end - keys.begin);
  std::fill(addends, addends + begin, hidden);
  std::fill(addends + end, addends + count, hidden);
  if (!seen.pattern) return;
  const unsigned char* pattern = seen.pattern + (keys.begin + begin - seen.base);
  for (Index k = begin; k < end; ++k) addends[k] = pattern[k - begin] ? addends[k] : hidden;
}

// A score and what is added to it. -inf hides the key whatever its score is, NaN included.
template <class S>
inline typename S::Vector add_or_hide(typename S::Vector score, typename S::Vector addend) {
  const auto hidden = S::less(addend, S::set(Exp2<typename S::Element>::least));
  return S::select(hidden, addend, S::add(score, addend));
}

// The scores of rows side by side, one in each lane, and what is added to each row, `stride` apart.
template <class S>
inline void add_to_lanes(const typename S::Element* addends, Index stride, Index count, typename S::Element* scores,
                         Index lanes) {
  for (Index k = 0; k < count; k += S::width) {
    typename S::Vector square[S::width];
    for (int r = 0; r < S::width; ++r) square[r] = S::load(addends + r * stride + k);
    transpose<S>(square);
    for (Index j = 0; j < smaller<Index>(S::width, count - k); ++j) {
      typename S::Element* place = scores + (k + j) * lanes;
      S::store(place, add_or_hide<S>(S::load(place), square[j]));
    }
  }
}

// What is done to every score alike: scale, cap, and the slope's bias. `falls` are the lanes' slopes, negative.
template <class S, int vectors>
inline void finish_scores(typename S::Element* scores, Index count, const Units<typename S::Element>& units,
                          const typename S::Vector* falls, Distances<S, vectors> distances) {
  using V = typename S::Vector;
  const V factor = S::set(units.score), cap = S::set(units.cap);
  for (Index k = 0; k < count; ++k, distances.next())
    for (int v = 0; v < vectors; ++v, scores += S::width) {
      V score = S::mul(S::load(scores), factor);
      if (units.cap > 0) score = S::mul(cap, tanh<S>(score));
      if (falls) score = S::fma(falls[v], distances.size(v), score);
      S::store(scores, score);
    }
}

template <class T>
inline bool finishes(const Arguments& a, const Units<T>& units) {
  return units.score != 1 || units.cap > 0 || a.slopes;
}

// Marks the weights of hidden keys as such: -1.
template <class T>
inline void mark_hidden(const Arguments& a, Index item, const Row& row, const Seen& seen, Keys keys, T* weights,
                        Index step) {
  T addends[kTileKeys];
  fill_addends(a, item, row, seen, keys, 1, addends);
  for (Index k = 0; k < keys.end - keys.begin; ++k)
    if (addends[k] == -T(__builtin_inf())) weights[k * step] = T(-1);
}

}  // namespace
}  // namespace headwise
