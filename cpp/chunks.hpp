// Keys are cut into chunks of a fixed size, which threads share: what a chunk leaves behind for each row, and how rows
// of all chunks are merged, in order.
//
//   rows          partial │ partial │ partial        numbers and unnormalised sums, row by row
//                    └────── merge ──────┘
//                           outputs
#pragma once

#include "blocks.hpp"
#include "row_products.hpp"

namespace headwise {
namespace {

constexpr Index kMaxChunks = 64;

// Keys in one chunk: depends on nothing but how many keys there are, and so do the bits of the result.
inline Index chunk_keys(const Arguments& a) {
  const Index tiles = (a.kv_len + kTileKeys - 1) / kTileKeys;
  return larger<Index>(2, (tiles + kMaxChunks - 1) / kMaxChunks) * kTileKeys;
}

// What one chunk leaves behind: numbers and unnormalised sums of each row.
template <class S>
struct Partial {
  using T = typename S::Element;
  Numbers<T> numbers;
  Rows<T> sums;

  static Partial take(Scratch& scratch, const Arguments& a) {
    const auto numbers = Numbers<T>::take(scratch, a.rows());
    const Index stride = padded<S>(a.value_dim);
    const Index rows = computed_rows(a.rows());
    return {numbers, {scratch.take<T>(rows * stride), rows, stride}};
  }
};

template <class S>
inline Index partial_bytes(const Arguments& a) {
  Scratch scratch(nullptr);
  Partial<S>::take(scratch, a);
  return scratch.used();
}

template <class T>
inline bool any_nan(const T* numbers, Index count) {
  bool nan = false;
  for (Index k = 0; k < count; ++k) nan |= numbers[k] != numbers[k];
  return nan;
}

// What a strip knows after a chunk goes to its rows. Tells whether any sum is NaN.
template <class S, class P>
inline bool leave_strip(const Block<S>& b, const Strip<S>& strip, const P& partial) {
  using T = typename S::Element;
  const Index first = b.range.begin + (strip.rows - b.rows);
  for (int f = 0; f < kNumFields; ++f)
    std::memcpy(partial.numbers.row(f) + first, strip.numbers.row(f), strip.count * sizeof(T));
  for (int c = 0; c < kNumCounts; ++c)
    std::memcpy(&partial.numbers.count(c, first), &strip.numbers.count(c, 0), strip.count * sizeof(Index));
  char* sums[kStrip<S>];
  for (Index r = 0; r < strip.count; ++r) {
    T* row = partial.sums.row(first + r);
    for (Index d = b.a.value_dim; d < partial.sums.stride; ++d) row[d] = 0;
    sums[r] = reinterpret_cast<char*>(row);
  }
  Strided layout;
  layout.type = element_type<T>;
  layout.column = sizeof(T);
  const auto as_they_are = [](typename S::Vector sum) { return sum; };
  for (int v = 0; v < strip.count; v += S::width)
    unpack_rows<S>(strip.sums + v, kStrip<S>, layout, sums + v, strip.count - v, b.a.value_dim, as_they_are);
  return any_nan(strip.sums, b.a.value_dim * kStrip<S>);
}

// One row of several chunks becomes one, in the first of them.
template <class S, class Nth>
inline void merge_row(const Units<typename S::Element>& units, bool observed, Index r, Index chunks, Nth nth) {
  using T = typename S::Element;
  const Partial<S> whole = nth(0);
  const Exponent<Scalar<T>> exponent(units.exponent);
  const T maximum = largest_of(whole.numbers, r, chunks, [&](Index chunk) { return nth(chunk).numbers; });
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    const Partial<S> part = nth(chunk);
    const auto factor = S::set(rescale<Scalar<T>>(part.numbers, r, maximum, exponent, observed));
    if (chunk) add_row(whole.numbers, part.numbers, r, observed);
    for (Index d = 0; d < whole.sums.stride; d += S::width) {
      const auto more = S::mul(factor, S::load(part.sums.row(r) + d));
      S::store(whole.sums.row(r) + d, chunk ? S::add(S::load(whole.sums.row(r) + d), more) : more);
    }
  }
}

// Merges the chunks of one key/value head in order and writes its rows out.
template <class S>
inline void merge_chunks(const Arguments& a, const RowRange& range, Index chunks, char* partial_buffer) {
  using T = typename S::Element;
  const Units<T> units(a);
  const Index bytes = partial_bytes<S>(a);
  const auto nth = [&](Index chunk) {
    Scratch scratch(partial_buffer + chunk * bytes);
    return Partial<S>::take(scratch, a);
  };
  const Partial<S> whole = nth(0);
  Row rows[kEndingRows];
  double totals[kEndingRows], lengths[kEndingRows];
  describe_rows(a, range, rows);
  if (chunks > 1)
    for (Index r = 0; r < a.rows(); ++r) merge_row<S>(units, a.observes(), r, chunks, nth);
  whole_totals(a, units, rows, whole.numbers, a.rows(), totals);
  for (Index r = 0; r < a.rows(); ++r) {
    T* sums = whole.sums.row(r);
    Quotients<S> quotients(S::set(T(totals[r])), true);
    char* output = place_of_output(a, range.item, rows[r]);
    for (Index d = 0; d < a.value_dim; d += S::width)
      store_part<S>(a.output_layout, output, d, smaller<Index>(S::width, a.value_dim - d),
                    quotients(S::load(sums + d)));
    const T square = S::sum(quotients.squares);
    if (a.statistics[kOutputNorm])
      lengths_of(&square, 1, a.value_dim, lengths + r, [&](Index, Index d) { return double(sums[d]) / totals[r]; });
  }
  if (a.reports()) write_statistics(a, units, range.item, rows, whole.numbers, a.rows(), lengths);
}

}  // namespace
}  // namespace headwise
