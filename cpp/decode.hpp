// Few queries: the keys are cut into chunks of a fixed size, which threads share, and merged in order.
//
// The lanes run along dimensions, so keys and values stream through once for all rows of a group of heads. A row's
// scores of one tile lie side by side and go through the same softmax and observers as a strip's.
#pragma once

#include "blocks.hpp"

namespace headwise {
namespace {

constexpr Index kMaxChunks = 64;

// Keys in one chunk: depends on nothing but how many keys there are, and so do the bits of the result.
inline Index chunk_keys(const Arguments& a) {
  const Index tiles = (a.kv_len + kTileKeys - 1) / kTileKeys;
  return larger<Index>(2, (tiles + kMaxChunks - 1) / kMaxChunks) * kTileKeys;
}

// What one chunk leaves behind: numbers and unnormalised sums of each row.
template <class T>
struct Partial {
  Numbers<T> numbers;
  T* sums;  // [rows][value_dim]

  static Partial take(Scratch& scratch, const Arguments& a) {
    const auto numbers = Numbers<T>::take(scratch, a.rows());
    return {numbers, scratch.take<T>(a.rows() * a.value_dim)};
  }
};

template <class T>
inline Index partial_bytes(const Arguments& a) {
  Scratch scratch(nullptr);
  Partial<T>::take(scratch, a);
  return scratch.used();
}

template <class S>
struct Chunk {
  using T = typename S::Element;
  const Arguments& a;
  RowRange range;
  Scratch scratch;
  Row* rows;
  T *query, *scores, *key, *value;
  Seen* seen;
  unsigned char* patterns;
  bool observed, careful = false;

  Chunk(const Arguments& arguments, const RowRange& r, char* buffer) : a(arguments), range(r), scratch(buffer) {
    rows = scratch.take<Row>(a.rows());
    query = scratch.take<T>(a.rows() * a.head_dim);
    scores = scratch.take<T>(a.rows() * kTileKeys);
    key = scratch.take<T>(kTileKeys * copied_stride<T>(a.head_dim));
    value = scratch.take<T>(kTileKeys * copied_stride<T>(a.value_dim));
    seen = scratch.take<Seen>(a.rows());
    patterns = scratch.take<unsigned char>(a.rows() * kTileKeys);
    observed = a.observed();
  }
};

// Describes the chunk's rows and packs their queries.
template <class S>
inline void begin_rows(Chunk<S>& c) {
  using T = typename S::Element;
  const Arguments& a = c.a;
  describe_rows(a, c.range, c.rows);
  for (Index r = 0; r < c.range.end - c.range.begin; ++r)
    pack_query<T>(a.query, a.query.at(c.range.item, c.rows[r].head, c.rows[r].query), a.head_dim, Units<T>(a).query,
                  c.query + r * a.head_dim, 1);
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
  const Index rows = c.range.end - c.range.begin;
  for (Index r = 0; r < rows; ++r) c.seen[r] = look(c.a, c.range.item, c.rows[r], tile, c.patterns + r * kTileKeys);
  const Keys keys = seen_keys(c.seen, rows);
  return {keys.empty() ? keys.end : tile.begin, keys.end};
}

// Scores of one row against some keys.
template <class S>
inline void score_visible_row(const Chunk<S>& c, Index r, Keys keys, Tile<typename S::Element> key,
                              typename S::Element* scores) {
  using T = typename S::Element;
  const Arguments& a = c.a;
  const Row& row = c.rows[r];
  const Index count = keys.end - keys.begin;
  score_row<S>(key, count, a.head_dim, c.query + r * a.head_dim, scores);
  const Units<T> units(a);
  if (finishes(a, units)) {
    const Index vectors = (count + S::width - 1) / S::width;
    for (Index k = count; k < vectors * S::width; ++k) scores[k] = 0;
    const typename S::Vector fall = S::set(a.slopes ? T(-a.slopes[row.head] * units.bias) : T(0));
    finish_scores<S, 1>(scores, vectors, units, a.slopes ? &fall : nullptr, key_distances<S>(row, keys.begin));
  }
  apply_row(a, c.range.item, row, c.seen[r], keys, units.bias, scores, 1);
}

// One row's scores become weights. Returns the correction for its sums. Scores beyond the last key are hidden.
template <class S, bool observed>
inline typename S::Element weigh_row(const Chunk<S>& c, Numbers<typename S::Element> n, Index r, Keys keys,
                                     typename S::Element* scores) {
  using T = typename S::Element;
  const Row& row = c.rows[r];
  const Index count = (keys.end - keys.begin + S::width - 1) / S::width;
  for (Index j = keys.end - keys.begin; j < count * S::width; ++j) scores[j] = -T(__builtin_inf());
  Pass<S, 1, observed> pass{scores, count, 0, {}, Exponent<S>(Units<T>(c.a).exponent), {}};
  largest<S, 1>(scores, count, pass.maximum);
  T lane[S::width];
  S::store(lane, pass.maximum[0]);
  T maximum = lane[0];
  for (int k = 1; k < S::width; ++k) maximum = Scalar<T>::max(lane[k], maximum);
  if constexpr (observed) {
    if (c.a.statistics[kArgmax] && n.at(kMaximum, r) < maximum)
      n.count(kLargestKey, r) = first_key_with(scores, keys, maximum);
    n.count(kComputed, r) += keys.end - keys.begin;
    if (c.a.statistics[kVisibleCount] || c.a.statistics[kVisibleDistance])
      update_visible(c.a, c.range.item, n, r, row, c.seen[r]);
    pass.distances = key_distances<S>(row, keys.begin);
  }
  maximum = Scalar<T>::max(n.at(kMaximum, r), maximum);
  const Exponent<Scalar<T>> exponent(Units<T>(c.a).exponent);
  const T correction = rescale<Scalar<T>>(n, r, maximum, exponent, observed);
  pass.maximum[0] = S::set(finite_maximum<Scalar<T>>(maximum));
  const auto sums = pass.sum_all();
  n.at(kTotal, r) += S::sum(sums.total[0]);
  if constexpr (observed) {
    n.at(kScored, r) += S::sum(sums.scored[0]);
    n.at(kDistant, r) += S::sum(sums.distant[0]);
    update_single_keys<T>(n, r, row, c.a.first_keys, {scores, keys, 1});
  }
  return correction;
}

template <class S>
inline void attend_chunk_tile(Chunk<S>& c, const Partial<typename S::Element>& partial, Keys keys) {
  using T = typename S::Element;
  const Arguments& a = c.a;
  const Index item = c.range.item, count = keys.end - keys.begin;
  const auto key = load_tile(a.key, a.key.at(item, c.range.kv_head, keys.begin), count, a.head_dim, false, c.key);
  const auto value =
      load_tile(a.value, a.value.at(item, c.range.kv_head, keys.begin), count, a.value_dim, false, c.value);
  for (Index r = 0; r < a.rows(); ++r) {
    T* scores = c.scores + r * kTileKeys;
    score_visible_row(c, r, keys, key, scores);
    const T correction = c.observed ? weigh_row<S, true>(c, partial.numbers, r, keys, scores)
                                    : weigh_row<S, false>(c, partial.numbers, r, keys, scores);
    if (c.careful) mark_hidden(a, item, c.rows[r], c.seen[r], keys, scores, 1);
    add_weighted_values_row<S>(value, count, a.value_dim, scores, correction, partial.sums + r * a.value_dim);
  }
}

// One pass of all rows of a key/value head over a chunk. Tells whether any sum came out as NaN.
template <class S>
inline bool attend_chunk_rows(const Arguments& a, const RowRange& range, Index chunk,
                              const Partial<typename S::Element>& partial, char* buffer, bool careful) {
  Chunk<S> c(a, range, buffer);
  c.careful = careful;
  init(partial.numbers);
  for (Index k = 0; k < a.rows() * a.value_dim; ++k) partial.sums[k] = 0;
  begin_rows(c);
  const Keys whole{chunk * chunk_keys(a), smaller(a.kv_len, (chunk + 1) * chunk_keys(a))};
  for (Index begin = whole.begin; begin < whole.end && !a.stop(); begin += kTileKeys) {
    const Keys keys = view_rows(c, {begin, smaller(begin + kTileKeys, whole.end)});
    if (!keys.empty()) attend_chunk_tile<S>(c, partial, keys);
  }
  bool nan = false;
  for (Index k = 0; k < a.rows() * a.value_dim; ++k) nan |= partial.sums[k] != partial.sums[k];
  return nan;
}

// As attend_block: a NaN is looked into.
template <class S>
inline void attend_chunk(const Arguments& a, const RowRange& range, Index chunk, char* partial_buffer, char* buffer) {
  Scratch scratch(partial_buffer);
  const auto partial = Partial<typename S::Element>::take(scratch, a);
  if (attend_chunk_rows<S>(a, range, chunk, partial, buffer, false))
    attend_chunk_rows<S>(a, range, chunk, partial, buffer, true);
}

// Merges the chunks of one key/value head in order and writes its rows out.
template <class T>
inline void merge_chunks(const Arguments& a, const RowRange& range, Index chunks, char* partial_buffer) {
  const auto nth = [&](Index chunk) {
    Scratch scratch(partial_buffer + chunk * partial_bytes<T>(a));
    return Partial<T>::take(scratch, a);
  };
  const auto whole = nth(0);
  for (Index r = 0; r < a.rows(); ++r) {
    T* sums = whole.sums + r * a.value_dim;
    for (Index chunk = 1; chunk < chunks; ++chunk) {
      const auto more = nth(chunk);
      const auto factors = merge(whole.numbers, more.numbers, r, Units<T>(a).exponent);
      for (Index d = 0; d < a.value_dim; ++d)
        sums[d] = factors.into * sums[d] + factors.from * more.sums[r * a.value_dim + d];
    }
    write_row(a, range.item, describe_row(a, range, r), whole.numbers, r, sums, 1);
  }
}

template <class S>
inline Index chunk_scratch(const Arguments& a) {
  return Chunk<S>(a, {}, nullptr).scratch.used();
}

}  // namespace
}  // namespace headwise
