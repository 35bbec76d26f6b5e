// Few queries: the keys are cut into chunks of a fixed size, which threads share, and merged in order.
//
// The lanes run along dimensions, so keys and values stream through once for all rows of a group of heads. A row's
// scores of one tile lie side by side and go through the same softmax and observers as a strip's.
#pragma once

#include "chunks.hpp"

namespace headwise {
namespace {

template <class S>
struct Chunk {
  using T = typename S::Element;
  const Arguments& a;
  const Units<T> units;
  RowRange range;
  Index count;  // rows; `query` and `scores` may have one more, of zeros
  Scratch scratch;
  Row* rows;
  Rows<T> query, scores;
  T *correction, *key, *value;
  Seen* seen;
  unsigned char* patterns;
  const bool weighs, observes;  // see Arguments
  bool careful = false;

  Chunk(const Arguments& arguments, const RowRange& r, char* buffer)
      : a(arguments),
        units(a),
        range(r),
        count(r.end - r.begin),
        scratch(buffer),
        weighs(a.weighs()),
        observes(a.observes()) {
    const Index computed = computed_rows(count), stride = padded<S>(a.head_dim);
    rows = scratch.take<Row>(count);
    query = {scratch.take<T>(computed * stride), computed, stride};
    scores = {scratch.take<T>(computed * kTileKeys), computed, kTileKeys};
    correction = scratch.take<T>(computed);
    key = scratch.take<T>(kTileKeys * copied_stride<T>(a.head_dim));
    value = scratch.take<T>(kTileKeys * copied_stride<T>(a.value_dim));
    seen = scratch.take<Seen>(count);
    patterns = scratch.take<unsigned char>(count * kTileKeys);
  }
};

// Describes the chunk's rows and packs their queries.
template <class S>
inline void begin_rows(Chunk<S>& c) {
  const Arguments& a = c.a;
  describe_rows(a, c.range, c.rows);
  for (Index k = c.count * c.query.stride; k < c.query.count * c.query.stride; ++k) c.query.data[k] = 0;
  for (Index r = 0; r < c.count; ++r) {
    const char* row = a.query.at(c.range.item, c.rows[r].head, c.rows[r].query);
    for (Index d = 0; d < a.head_dim; d += S::width) {
      const auto numbers = load_part<S>(a.query, row, d, smaller<Index>(S::width, a.head_dim - d));
      S::store(c.query.row(r) + d, S::mul(numbers, S::set(c.units.query)));
    }
  }
}

// The first key that has the row's largest score.
template <class T>
inline Index first_key_with(const T* scores, Keys keys, T maximum) {
  Index j = keys.begin;
  while (j < keys.end - 1 && scores[j - keys.begin] != maximum) ++j;
  return j;
}

// The distances of keys from `first` on, one in each lane.
template <class S>
inline Distances<S, 1> key_distances(const Row& row, Index first) {
  typename S::Element lane[S::width];
  for (int k = 0; k < S::width; ++k) lane[k] = typename S::Element(row.position - first - k);
  return {{S::load(lane)}, S::set(typename S::Element(S::width))};
}

// The part of a tile that the rows see. Only its end is cut: sums keep their order, and what is left out is 0.
template <class S>
inline Keys view_rows(Chunk<S>& c, Keys tile) {
  for (Index r = 0; r < c.count; ++r) c.seen[r] = look(c.a, c.range.item, c.rows[r], tile, c.patterns + r * kTileKeys);
  const Keys keys = seen_keys(c.seen, c.count);
  return {keys.empty() ? keys.end : tile.begin, keys.end};
}

// The run of keys from `begin` on, in memory.
template <class S>
inline Stretch run_ahead(const Chunk<S>& c, const Strided& operand, Index begin, Index width) {
  return rows_ahead(operand, c.range, {begin, smaller(begin + kRun, c.a.kv_len)}, width);
}

// Adds one row's biases and hides what it does not see.
template <class S>
inline void apply_row(const Chunk<S>& c, Index r, Keys keys, typename S::Element* scores) {
  using T = typename S::Element;
  if (!c.a.rows_biased() && !c.seen[r].pattern)
    return for_hidden_keys(c.seen[r], keys, [&](Index j) { scores[j - keys.begin] = -T(__builtin_inf()); });
  T addends[kTileKeys];
  fill_addends(c.a, c.range.item, c.rows[r], c.seen[r], keys, c.units.bias, addends);
  for (Index k = 0; k < keys.end - keys.begin; k += S::width)
    S::store(scores + k, add_or_hide<S>(S::load(scores + k), S::load(addends + k)));
}

// Scores of all rows against some keys. At the end memory is asked for what comes after.
template <class S>
inline void score_visible_rows(const Chunk<S>& c, Keys keys, const Stretch& after) {
  using T = typename S::Element;
  const Arguments& a = c.a;
  const Index count = keys.end - keys.begin;
  with_tile<S>(a.key, a.key.at(c.range.item, c.range.kv_head, keys.begin), count, a.head_dim, c.key,
               [&](auto key) { score_rows<S>(key, count, a.head_dim, c.query, c.scores, after); });
  for (Index r = 0; r < c.count; ++r) {
    T* scores = c.scores.row(r);
    if (finishes(a, c.units)) {
      for (Index k = count; k < padded<S>(count); ++k) scores[k] = 0;
      const typename S::Vector fall = S::set(a.slopes ? T(-a.slopes[c.rows[r].head] * c.units.bias) : T(0));
      finish_scores<S, 1>(scores, padded<S>(count) / S::width, c.units, a.slopes ? &fall : nullptr,
                          key_distances<S>(c.rows[r], keys.begin));
    }
    apply_row(c, r, keys, scores);
  }
}

// One row's scores become weights. Returns the correction for its sums. Scores beyond the last key are hidden.
template <class S, bool observed>
inline typename S::Element weigh_row(const Chunk<S>& c, Numbers<typename S::Element> n, Index r, Keys keys) {
  using T = typename S::Element;
  const Row& row = c.rows[r];
  T* scores = c.scores.row(r);
  const Index count = padded<S>(keys.end - keys.begin) / S::width;
  for (Index j = keys.end - keys.begin; j < count * S::width; ++j) scores[j] = -T(__builtin_inf());
  Pass<S, 1, observed> pass{scores, scores, count, 0, {}, Exponent<S>(c.units.exponent), {}};
  largest<S, 1>(scores, count, pass.maximum);
  T lane[S::width];
  S::store(lane, pass.maximum[0]);
  T maximum = lane[0];
  for (int k = 1; k < S::width; ++k) maximum = Scalar<T>::max(lane[k], maximum);
  if (c.a.statistics[kArgmax] && n.at(kMaximum, r) < maximum)
    n.count(kLargestKey, r) = first_key_with(scores, keys, maximum);
  if (c.a.statistics[kComputedKeys]) n.count(kComputed, r) += keys.end - keys.begin;
  if (c.a.counts_visible()) update_visible(c.a, c.range.item, n, r, row, c.seen[r]);
  if constexpr (observed) pass.distances = key_distances<S>(row, keys.begin);
  maximum = Scalar<T>::max(n.at(kMaximum, r), maximum);
  const Exponent<Scalar<T>> exponent(c.units.exponent);
  const T correction = rescale<Scalar<T>>(n, r, maximum, exponent, c.observes);
  pass.maximum[0] = S::set(finite_maximum<Scalar<T>>(maximum));
  const auto sums = pass.sum_all();
  n.at(kTotal, r) += S::sum(sums.total[0]);
  if constexpr (observed) {
    n.at(kScored, r) += S::sum(sums.scored[0]);
    n.at(kDistant, r) += S::sum(sums.distant[0]);
  }
  if (c.a.singles_out()) update_single_keys<T>(n, r, row, c.a.first_keys, {scores, keys, 1});
  return correction;
}

template <class S>
inline void attend_chunk_tile(Chunk<S>& c, const Partial<S>& partial, Keys keys) {
  using T = typename S::Element;
  const Arguments& a = c.a;
  const Index count = keys.end - keys.begin;
  score_visible_rows(c, keys, run_ahead(c, a.value, keys.begin, a.value_dim));
  for (Index r = 0; r < c.count; ++r)
    c.correction[r] =
        c.weighs ? weigh_row<S, true>(c, partial.numbers, r, keys) : weigh_row<S, false>(c, partial.numbers, r, keys);
  for (Index k = c.count * kTileKeys; k < c.scores.count * kTileKeys; ++k) c.scores.data[k] = 0;
  const Rows<const T> weights{c.scores.data, c.scores.count, c.scores.stride};
  const char* first = a.value.at(c.range.item, c.range.kv_head, keys.begin);
  const Stretch after = run_ahead(c, a.key, keys.end, a.head_dim);
  with_tile<S>(a.value, first, count, a.value_dim, c.value, [&](auto value) {
    if (!c.careful)
      return add_weighted_rows<S, false>(value, count, a.value_dim, weights, c.correction, partial.sums, after);
    for (Index r = 0; r < c.count; ++r) mark_hidden(a, c.range.item, c.rows[r], c.seen[r], keys, c.scores.row(r), 1);
    add_weighted_rows<S, true>(value, count, a.value_dim, weights, c.correction, partial.sums, after);
  });
}

// One pass of all rows of a key/value head over a chunk. Tells whether any sum came out as NaN.
template <class S>
inline bool attend_chunk_rows(const Arguments& a, const RowRange& range, Keys whole, const Partial<S>& partial,
                              char* buffer, bool careful) {
  Chunk<S> c(a, range, buffer);
  c.careful = careful;
  init(partial.numbers);
  for (Index k = 0; k < partial.sums.count * partial.sums.stride; ++k) partial.sums.data[k] = 0;
  begin_rows(c);
  if (a.counts_visible())
    for (Index r = 0; r < c.count; ++r) count_once(a, partial.numbers, r, c.rows[r], whole);
  for (Index begin = whole.begin; begin < whole.end && !a.stop(); begin += kTileKeys) {
    const Keys keys = view_rows(c, {begin, smaller(begin + kTileKeys, whole.end)});
    if (!keys.empty()) attend_chunk_tile<S>(c, partial, keys);
  }
  return any_nan(partial.sums.data, c.count * partial.sums.stride);
}

// One chunk of keys for all rows of a key/value head: few rows side by side, more in strips.
template <class S>
inline void attend_chunk(const Arguments& a, const RowRange& range, Index chunk, char* partial_buffer, char* buffer) {
  Scratch scratch(partial_buffer);
  const auto partial = Partial<S>::take(scratch, a);
  const Keys keys{chunk * chunk_keys(a), smaller(a.kv_len, (chunk + 1) * chunk_keys(a))};
  if (a.rows() < kFewRows)
    return optimistically([&](bool careful) { return attend_chunk_rows<S>(a, range, keys, partial, buffer, careful); });
  by_strips<S>(range, [&](auto lanes, const RowRange& rows) {
    optimistically([&](bool careful) {
      return attend_rows<decltype(lanes)>(a, rows, {}, keys, buffer, careful, [&](const auto& b, const auto& strip) {
        return leave_strip(b, strip, partial);
      });
    });
  });
}

template <class S>
inline Index chunk_scratch(const Arguments& a) {
  return a.rows() < kFewRows ? Chunk<S>(a, {0, 0, 0, a.rows()}, nullptr).scratch.used() : block_scratch<S>(a, a.rows());
}

}  // namespace
}  // namespace headwise
