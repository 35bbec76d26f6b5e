// The second pass: exact weights of a rectangle, once a row's maximum and total are known. Nothing else is computed.
//
// Scores are computed again, in the order of the kernel that found the maximum: with another order of additions the
// largest score could come out above it.
#pragma once

#include "decode.hpp"

namespace headwise {
namespace {

// The maximum and total of a row, as the first pass left them. A row that saw nothing gets a total of 1.
template <class T>
struct Final {
  T maximum, total;

  Final(const Arguments& a, Index item, const Row& row) {
    const Index place = place_of(a, item, row);
    maximum = finite_maximum<Scalar<T>>(static_cast<const T*>(a.statistics[kRowMaximum])[place]);
    total = static_cast<const T*>(a.statistics[kRowTotal])[place];
    if (total == 0) total = 1;
  }
};

// Where the rectangle keeps the weights of a row from key `begin` on.
template <class T>
inline T* place_in(const Rectangle& rectangle, const Row& row, Index begin) {
  const Index width = rectangle.key_end - rectangle.key_begin;
  return static_cast<T*>(rectangle.weights) + (row.query - rectangle.query_begin) * width +
         (begin - rectangle.key_begin);
}

// weights[j] = e^(scores[j] - maximum) / total for `count` vectors
template <class S>
inline void normalise(typename S::Element* scores, Index count, Final<typename S::Element> row,
                      const Exponent<S>& exponent) {
  for (Index k = 0; k < count * S::width; k += S::width) {
    const auto below = exponent.clip(S::sub(S::load(scores + k), S::set(row.maximum)));
    S::store(scores + k, S::div(exp2<S>(below, exponent), S::set(row.total)));
  }
}

// One strip and one tile of keys: scores side by side are turned into a row for each query.
template <class S>
inline void write_strip_weights(Block<S>& b, const Strip<S>& strip, const Rectangle& rectangle, Keys keys) {
  using T = typename S::Element;
  const Exponent<S> exponent(b.units.exponent);
  T lane[kTileKeys];
  for (Index r = 0; r < strip.count; ++r) {
    const Row& row = strip.rows[r];
    const Index count = keys.end - keys.begin, padded = (count + S::width - 1) / S::width * S::width;
    for (Index k = 0; k < padded; ++k) lane[k] = k < count ? b.scores[k * kStrip<S> + r] : T(0);
    normalise<S>(lane, padded / S::width, Final<T>(b.a, rectangle.item, row), exponent);
    std::memcpy(place_in<T>(rectangle, row, keys.begin), lane, count * sizeof(T));
  }
}

template <class S>
inline void weights_of_strips(const Arguments& a, const Rectangle& rectangle, const RowRange& range, char* buffer) {
  Block<S> b(a, range, buffer);
  describe_rows(a, range, b.rows);
  for (Index s = 0; s < b.strips; ++s) {
    auto strip = b.take_strip(s);
    begin_strip<S>(a, b.units, rectangle.item, strip);
    for (Index begin = rectangle.key_begin; begin < rectangle.key_end && !a.stop(); begin += kTileKeys) {
      const Keys keys{begin, smaller(begin + kTileKeys, rectangle.key_end)};
      const auto key = load_tile<S>(a.key, a.key.at(range.item, range.kv_head, begin), keys.end - keys.begin,
                                    a.head_dim, true, b.key);
      View<S> view = view_tile(b, strip, keys);
      view.whole &= view.keys.begin == keys.begin && view.keys.end == keys.end;
      view.keys = keys;
      typename S::Vector maximum[kVectors<S>];
      score_visible<S>(b, strip, view, key, maximum);
      write_strip_weights<S>(b, strip, rectangle, keys);
    }
  }
}

template <class S>
inline void weights_of_rows(const Arguments& a, const Rectangle& rectangle, const RowRange& range, char* buffer) {
  using T = typename S::Element;
  Chunk<S> c(a, range, buffer);
  begin_rows(c);
  for (Index begin = rectangle.key_begin; begin < rectangle.key_end && !a.stop(); begin += kTileKeys) {
    const Keys keys{begin, smaller(begin + kTileKeys, rectangle.key_end)};
    const Index count = keys.end - keys.begin;
    view_rows(c, keys);
    score_visible_rows(c, keys, run_ahead(c, a.key, keys.end, a.head_dim));
    for (Index r = 0; r < c.count; ++r) {
      const Row& row = c.rows[r];
      T* scores = c.scores.row(r);
      for (Index k = count; k < padded<S>(count); ++k) scores[k] = 0;
      normalise<S>(scores, padded<S>(count) / S::width, Final<T>(a, range.item, row), Exponent<S>(c.units.exponent));
      std::memcpy(place_in<T>(rectangle, row, keys.begin), scores, count * sizeof(T));
    }
  }
}

// A rectangle of at most block_rows queries.
template <class S>
inline void weights_rectangle(const Arguments& a, const Rectangle& rectangle, char* buffer) {
  const Index kv_head = rectangle.head / a.group(), first = rectangle.head % a.group() * a.query_len;
  const RowRange range{rectangle.item, kv_head, first + rectangle.query_begin, first + rectangle.query_end};
  if (a.rows() < kFewRows) {
    weights_of_rows<S>(a, rectangle, range, buffer);
  } else {
    weights_of_strips<S>(a, rectangle, range, buffer);
  }
}

template <class S>
inline Index weights_scratch(const Arguments& a, Index rows) {
  return a.rows() < kFewRows ? chunk_scratch<S>(a) : block_scratch<S>(a, rows);
}

}  // namespace
}  // namespace headwise
