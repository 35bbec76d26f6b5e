// What is remembered of a row while its weights stream by.
//
// The weights of a tile exist once, in cache, as p = e^(score - maximum so far). An observer sees them there and
// keeps one number per row. It has four verbs:
//
//   init      before the first tile
//   update    one tile, in three places: update_visible and observe_largest before the weights exist, `weigh` in
//             online_softmax.hpp for every weight as it is made, update_single_keys afterwards
//   merge     two disjoint sets of keys of the same row become one
//   finalize  the number a caller asked for, from the row's final maximum and total (endings.hpp)
//
// The weighted sum of the values, in products.hpp, is such an observer with a vector for a number. The others are
// nearly all linear in p: they differ only in the factor they give each weight, and share `rescale` and `merge`.
// Two are not: `kScored`, from which the entropy comes, and the key of the largest weight.
#pragma once

#include <cmath>

#include "scores.hpp"
#include "simd_scalar.hpp"

namespace headwise {
namespace {

// Numbers kept per row, in the working precision. From kTotal on they are linear in the unnormalised weights.
enum Field : int {
  kMaximum,  // of the scores so far, in their own units (see Units)
  kBound,    // a score that so many keys reach, or -inf
  kScored,   // Σ p · (score - maximum)
  kTotal,    // Σ p
  kDistant,  // Σ p · |distance|
  kSelf,     // p at the query's own position, one before it, one after it
  kPrevious,
  kNext,
  kFirst,  // Σ p over the first keys
  kNumFields
};

// Whole numbers kept per row.
enum Count : int { kLargestKey, kVisible, kVisibleDistances, kComputed, kNumCounts };

// The numbers of `lanes` rows side by side: field f of row r is at numbers[f · lanes + r].
template <class T>
struct Numbers {
  T* numbers;
  Index* counts;
  Index lanes;

  T* row(int field) const { return numbers + field * lanes; }
  T& at(int field, Index r) const { return numbers[field * lanes + r]; }
  Index& count(int field, Index r) const { return counts[field * lanes + r]; }

  static Numbers take(Scratch& scratch, Index lanes) {
    T* numbers = scratch.take<T>(kNumFields * lanes);
    return {numbers, scratch.take<Index>(kNumCounts * lanes), lanes};
  }
};

template <class T>
inline void init(Numbers<T> n) {
  for (Index k = 0; k < kNumFields * n.lanes; ++k) n.numbers[k] = 0;
  for (Index k = 0; k < kNumCounts * n.lanes; ++k) n.counts[k] = 0;
  for (Index r = 0; r < n.lanes; ++r) n.at(kMaximum, r) = n.at(kBound, r) = -T(__builtin_inf());
  for (Index r = 0; r < n.lanes; ++r) n.count(kLargestKey, r) = -1;
}

// The maximum that weights are measured from: finite for a row that has seen nothing yet, NaN for one that saw NaN.
template <class S>
inline typename S::Vector finite_maximum(typename S::Vector maximum) {
  return S::max(S::set(Exp2<typename S::Element>::least), maximum);
}

// Brings the numbers of the rows from r on, one in each lane, to a new maximum, and returns the correction, the
// factor by which their weights shrink.
//   Σ p·e^-D (s - m - D) = e^-D (Σ p (s - m) - D Σ p)  with D = the rise of the maximum
template <class S>
inline typename S::Vector rescale(Numbers<typename S::Element> n, Index r, typename S::Vector maximum,
                                  const Exponent<S>& exponent, bool observed) {
  using V = typename S::Vector;
  const V fall = exponent.clip(S::sub(S::load(n.row(kMaximum) + r), finite_maximum<S>(maximum)));
  const V correction = exp2<S>(fall, exponent);
  S::store(n.row(kMaximum) + r, maximum);
  const V scored = S::fma(fall, S::load(n.row(kTotal) + r), S::load(n.row(kScored) + r));
  S::store(n.row(kScored) + r, S::mul(correction, scored));
  const int fields = observed ? kNumFields : kTotal + 1;
  for (int f = kTotal; f < fields; ++f) S::store(n.row(f) + r, S::mul(correction, S::load(n.row(f) + r)));
  return correction;
}

// Where the weights of one row's tile are: the weight of key j is at weights[(j - keys.begin) · step].
template <class T>
struct RowWeights {
  const T* weights;
  Keys keys;
  Index step;
  T at(Index j) const { return keys.begin <= j && j < keys.end ? weights[(j - keys.begin) * step] : T(0); }
};

// The observers that look at single keys.
template <class T>
inline void update_single_keys(Numbers<T> n, Index r, const Row& row, Index first_keys, RowWeights<T> tile) {
  n.at(kSelf, r) += tile.at(row.position);
  n.at(kPrevious, r) += tile.at(row.position - 1);
  n.at(kNext, r) += tile.at(row.position + 1);
  const Index last = smaller(tile.keys.end, first_keys);
  for (Index j = tile.keys.begin; j < last; ++j) n.at(kFirst, r) += tile.at(j);
}

// Sums of distances end at the largest whole number: keys and positions may be that many and that far.
inline Index added(Index sum, Index more) { return __builtin_add_overflow(sum, more, &sum) ? kUnbounded : sum; }

// Σ |position - j| over a range of keys: at most two runs of consecutive numbers.
inline Index sum_of_distances(Index position, Keys keys) {
  const auto run = [](Index first, Index last) {
    Index twice;
    return __builtin_mul_overflow(last - first + 1, first + last, &twice) ? kUnbounded : twice / 2;
  };
  if (keys.empty()) return 0;
  if (position < keys.begin) return run(keys.begin - position, keys.end - 1 - position);
  if (position >= keys.end) return run(position - keys.end + 1, position - keys.begin);
  return added(run(0, position - keys.begin), run(0, keys.end - 1 - position));
}

// What a row can see: counted, not weighed, and whatever the scores are. A row whose sight is a range is counted once,
// for all keys among `keys`. Tells whether it was.
inline bool counted_once(const Arguments& a, const Row& row) { return row.sight.exact && !a.rows_biased(); }

template <class T>
inline bool count_once(const Arguments& a, Numbers<T> n, Index r, const Row& row, Keys keys) {
  if (!counted_once(a, row)) return false;
  const Keys seen = common(row.sight.keys, keys);
  n.count(kVisible, r) = seen.empty() ? 0 : seen.end - seen.begin;
  n.count(kVisibleDistances, r) = sum_of_distances(row.position, seen);
  return true;
}

// The others are counted tile by tile.
template <class T>
inline void update_visible(const Arguments& a, Index item, Numbers<T> n, Index r, const Row& row, const Seen& seen) {
  if (counted_once(a, row)) return;
  if (!seen.pattern && !a.rows_biased()) {
    n.count(kVisible, r) += seen.keys.empty() ? 0 : seen.keys.end - seen.keys.begin;
    n.count(kVisibleDistances, r) = added(n.count(kVisibleDistances, r), sum_of_distances(row.position, seen.keys));
    return;
  }
  if (seen.keys.empty()) return;
  T addends[kTileKeys];
  fill_addends(a, item, row, seen, seen.keys, 1, addends);
  const Index middle = larger(seen.keys.begin, smaller(seen.keys.end, row.position));
  for (const Keys side : {Keys{seen.keys.begin, middle}, Keys{middle, seen.keys.end}}) {
    std::int32_t visible = 0, steps = 0;
    const T* first = addends + (side.begin - seen.keys.begin);
    for (std::int32_t k = 0; k < std::int32_t(side.end - side.begin); ++k) {
      const std::int32_t one = first[k] != -T(__builtin_inf());
      visible += one;
      steps += one * k;
    }
    if (visible == 0) continue;
    const bool behind = row.position <= side.begin;
    Index distances;
    const bool far = __builtin_mul_overflow(Index(visible),
                                            behind ? side.begin - row.position : row.position - side.begin, &distances);
    n.count(kVisible, r) += visible;
    n.count(kVisibleDistances, r) =
        added(n.count(kVisibleDistances, r), far ? kUnbounded : added(distances, behind ? steps : -steps));
  }
}

// Row r of `count` disjoint sets of keys, the numbers of nth(0) = `whole` being the first: the largest score of all,
// and its key. Ties go to the lower one.
template <class T, class Nth>
inline T largest_of(Numbers<T> whole, Index r, Index count, Nth nth) {
  T maximum = whole.at(kMaximum, r);
  for (Index k = 1; k < count; ++k) {
    const Numbers<T> part = nth(k);
    const bool rises = maximum < part.at(kMaximum, r);
    if (!rises) continue;
    maximum = part.at(kMaximum, r);
    whole.count(kLargestKey, r) = part.count(kLargestKey, r);
  }
  return maximum;
}

// Adds row r of another set of keys, once both are brought to the same maximum.
template <class T>
inline void add_row(Numbers<T> whole, Numbers<T> part, Index r, bool observed) {
  whole.at(kTotal, r) += part.at(kTotal, r);
  if (!observed) return;
  for (int f = kTotal + 1; f < kNumFields; ++f) whole.at(f, r) += part.at(f, r);
  whole.at(kScored, r) += part.at(kScored, r);
  for (int c = kVisible; c < kNumCounts; ++c) whole.count(c, r) = added(whole.count(c, r), part.count(c, r));
}

}  // namespace
}  // namespace headwise
