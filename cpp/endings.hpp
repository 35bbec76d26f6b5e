// How rows end: what their sums are divided by, and the statistics asked for, in natural units.
//
// A learned sink is one more key, of its own score and a value of zero: it takes part of the total and nothing else. A
// row that saw no key stays empty, sink or not.
#pragma once

#include "observers.hpp"

namespace headwise {
namespace {

// The natural logarithm of a number from 1 on, to the last bit or two; NaN and infinity stay. Without a branch, so that
// loops become vectors.
//
//   x = 2^e · m, m from √½ to √2        log x = e · log 2 + 2 (s + s³/3 + s⁵/5 + …), s = (m - 1) / (m + 1)
inline double log_of(double x) {
  constexpr std::uint64_t least = 0x3fe6a09e667f3bcd, magic = 0x4330000000000000;  // √½, and 2^52
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const std::uint64_t exponent = (bits - least) >> 52, shown = exponent | magic, fraction = bits - (exponent << 52);
  double e, m;
  std::memcpy(&e, &shown, sizeof e);
  std::memcpy(&m, &fraction, sizeof m);
  const double s = (m - 1) / (m + 1), z = s * s;
  const double tail = 2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * (2.0 / 19 + z * (2.0 / 21 + z * (2.0 / 23)))));
  const double series = 2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 + z * tail))));
  e -= 0x1p52;
  const double log = e * 0x1.62e42fefa38p-1 + (2 * s + (s * z * series + e * 0x1.ef35793c7673p-45));
  return x - x == 0 ? log : x;
}

// The sink's score above a row's largest one. Beyond 700 no key has any weight beside it.
inline double rise_of(const Arguments& a, const Row& row, double maximum) { return a.sink_logits[row.head] - maximum; }
constexpr double kDrowned = 700;

// Rows that end together: those of a strip, or all whose keys are split.
constexpr Index kEndingRows = kSplitRows;

// The total that the sums of rows are divided by, the sink included; 1 for a row that saw nothing.
template <class T>
inline void whole_totals(const Arguments& a, const Units<T>& units, const Row* rows, Numbers<T> n, Index count,
                         double* whole) {
  for (Index r = 0; r < count; ++r) whole[r] = n.at(kTotal, r) == 0 ? 1 : double(n.at(kTotal, r));
  if (!a.sink_logits) return;
  for (Index r = 0; r < count; ++r)
    if (n.at(kTotal, r) != 0) whole[r] += std::exp(rise_of(a, rows[r], double(n.at(kMaximum, r)) * units.natural));
}

template <class T>
struct Endings {
  Numbers<T> n;
  Index count;
  double maximum[kEndingRows], whole[kEndingRows], share[kEndingRows], lse[kEndingRows];
  double entropy[kEndingRows], sink_weight[kEndingRows];

  Endings(const Arguments& a, const Units<T>& units, const Row* rows, Numbers<T> numbers, Index rows_count)
      : n(numbers), count(rows_count) {
    whole_totals(a, units, rows, n, count, whole);
    for (Index r = 0; r < count; ++r) {
      const bool empty = n.at(kTotal, r) == 0;
      const double log = log_of(whole[r]);
      maximum[r] = double(n.at(kMaximum, r)) * units.natural;
      share[r] = empty ? 0 : 1 / whole[r];
      lse[r] = empty ? -__builtin_inf() : maximum[r] + log;
      entropy[r] = empty ? 0 : log - double(n.at(kScored, r)) * units.natural * share[r];
      sink_weight[r] = 0;
    }
    if (!a.sink_logits) return;
    for (Index r = 0; r < count; ++r)
      if (n.at(kTotal, r) != 0) add_sink(r, rise_of(a, rows[r], maximum[r]), a.sink_logits[rows[r].head]);
  }

  void add_sink(Index r, double rise, double logit) {
    const double sink = std::exp(rise);
    const bool drowned = n.at(kTotal, r) == n.at(kTotal, r) && rise > kDrowned;
    if (drowned) lse[r] = logit;
    entropy[r] = drowned ? 0 : entropy[r] - (sink > 0 ? sink * rise : 0) * share[r];
    sink_weight[r] = drowned ? 1 : sink * share[r];
  }
};

// One statistic of rows that follow one another: calls `each(number)`, `number` giving that of row r.
template <class T, class Each>
inline void finalize(const Endings<T>& end, Statistic statistic, const double* lengths, Each each) {
  const auto weight = [&](int field) {
    each([&, numbers = end.n.row(field)](Index r) { return double(numbers[r]) * end.share[r]; });
  };
  switch (statistic) {
    case kLse:
      return each([&](Index r) { return end.lse[r]; });
    case kMaxScore:
      return each([&](Index r) {
        const double total = end.n.at(kTotal, r);
        return total - total != 0 ? total : end.maximum[r];
      });
    case kEntropy:
      return each([&](Index r) { return end.entropy[r]; });
    case kMaxWeight:
      return each([&](Index r) { return end.share[r]; });
    case kDistance:
      return weight(kDistant);
    case kSelfWeight:
      return weight(kSelf);
    case kPreviousWeight:
      return weight(kPrevious);
    case kNextWeight:
      return weight(kNext);
    case kFirstWeight:
      return weight(kFirst);
    case kSinkWeight:
      return each([&](Index r) { return end.sink_weight[r]; });
    case kOutputNorm:
      return each([&](Index r) { return lengths[r]; });
    case kTopBound:
      return each([&](Index r) { return double(end.n.at(kBound, r)); });
    case kRowMaximum:
      return each([&](Index r) { return double(end.n.at(kMaximum, r)); });
    default:
      return each([&](Index r) { return end.n.at(kTotal, r) == 0 ? 0 : end.whole[r]; });
  }
}

// Writes one of the whole numbers among the statistics.
template <class T>
inline void finalize_count(const Endings<T>& end, Statistic statistic, Index* out) {
  const auto copy = [&](int field) {
    for (Index r = 0; r < end.count; ++r) out[r] = end.n.count(field, r);
  };
  if (statistic == kVisibleCount) return copy(kVisible);
  if (statistic == kVisibleDistance) return copy(kVisibleDistances);
  if (statistic == kComputedKeys) return copy(kComputed);
  copy(kLargestKey);
  for (Index r = 0; r < end.count; ++r)
    if (!(end.n.at(kTotal, r) > 0)) out[r] = -1;
}

// Writes the statistics of rows that follow one another; `lengths` are those of their outputs.
template <class T>
inline void write_statistics(const Arguments& a, const Units<T>& units, Index item, const Row* rows, Numbers<T> n,
                             Index count, const double* lengths) {
  const Endings<T> end(a, units, rows, n, count);
  const Index place = place_of(a, item, rows[0]);
  for (int s = 0; s < kNumStatistics; ++s) {
    if (!a.statistics[s]) continue;
    if (kStatistics[s].is_count) {
      finalize_count(end, Statistic(s), static_cast<Index*>(a.statistics[s]) + place);
    } else {
      T* out = static_cast<T*>(a.statistics[s]) + place;
      finalize(end, Statistic(s), lengths, [&](auto number) {
        for (Index r = 0; r < count; ++r) out[r] = as_working<T>(number(r));
      });
    }
  }
}

}  // namespace
}  // namespace headwise
