// The second pass: exact weights of a rectangle, once a row's maximum and total are known. Nothing else is computed.
#pragma once

#include "blocks.hpp"

namespace headwise {
namespace {

// weights[i, j] = e^(scores[i, j] - maximum[i]) / total[i] for one strip and one tile of keys.
template <class S>
inline void write_weights(Block<S>& b, const Strip<S>& strip, const Rectangle& rectangle, Keys keys) {
  using T = typename S::Element;
  const Index width = rectangle.key_end - rectangle.key_begin;
  T* out = static_cast<T*>(rectangle.weights);
  const Exponent<S> exponent(Units<T>(b.a).exponent);
  for (int v = 0; v < kVectors; ++v) {
    const auto maximum = reference<S>(S::load(strip.numbers.row(kMaximum) + v * S::width));
    const auto total = S::load(strip.numbers.row(kTotal) + v * S::width);
    for (Index k = 0; k < keys.end - keys.begin; ++k) {
      T* place = b.scores + (k * kVectors + v) * S::width;
      S::store(place, S::div(exp2<S>(S::sub(S::load(place), maximum), exponent), total));
    }
  }
  for (Index r = 0; r < strip.count; ++r) {
    T* row = out + (strip.rows[r].query - rectangle.query_begin) * width + (keys.begin - rectangle.key_begin);
    for (Index k = 0; k < keys.end - keys.begin; ++k) row[k] = b.scores[k * kStrip<S> + r];
  }
}

// The final numbers of the strip's rows, as the first pass left them. A row that saw nothing gets a total of 1.
template <class S>
inline void recall_numbers(const Arguments& a, Index item, const Strip<S>& strip) {
  using T = typename S::Element;
  for (Index r = 0; r < kStrip<S>; ++r) strip.numbers.at(kTotal, r) = 1;
  for (Index r = 0; r < strip.count; ++r) {
    const Index place = (item * a.num_heads + strip.rows[r].head) * a.query_len + strip.rows[r].query;
    const T total = static_cast<const T*>(a.statistics[kRowTotal])[place];
    strip.numbers.at(kMaximum, r) = static_cast<const T*>(a.statistics[kRowMaximum])[place];
    strip.numbers.at(kTotal, r) = total == 0 ? T(1) : total;
  }
}

template <class S>
inline void write_rectangle_strip(Block<S>& b, const Strip<S>& strip, const Rectangle& rectangle) {
  const Arguments& a = b.a;
  begin_strip<S>(a, rectangle.item, strip);
  recall_numbers<S>(a, rectangle.item, strip);
  for (Index begin = rectangle.key_begin; begin < rectangle.key_end && !a.stop(); begin += kTileKeys) {
    const Keys keys{begin, smaller(begin + kTileKeys, rectangle.key_end)};
    const auto key =
        load_tile(a.key, a.key.at(rectangle.item, b.range.kv_head, begin), keys.end - keys.begin, a.head_dim, b.key);
    score_visible<S>(a, rectangle.item, strip, keys, key, b.scores);
    write_weights<S>(b, strip, rectangle, keys);
  }
}

// One head's rows [query_begin, query_end), at most block_rows of them.
template <class S>
inline void weights_rectangle(const Arguments& a, const Rectangle& rectangle, char* buffer) {
  const Index kv_head = rectangle.head / a.group(), first = rectangle.head % a.group() * a.query_len;
  const RowRange range{rectangle.item, kv_head, first + rectangle.query_begin, first + rectangle.query_end};
  Block<S> b(a, range, buffer);
  for (Index r = range.begin; r < range.end; ++r) b.rows[r - range.begin] = describe_row(a, range, r);
  for (Index s = 0; s < b.strips; ++s) write_rectangle_strip(b, b.take_strip(s), rectangle);
}

}  // namespace
}  // namespace headwise
