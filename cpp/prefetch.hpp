// What memory is asked for before it is needed.
#pragma once

#include "visibility.hpp"

namespace headwise {
namespace {

// Rows in memory that will be read, in bytes. Those that follow one another without a gap count as one.
struct Stretch {
  const char* first = nullptr;
  Index stride = 0, rows = 0, width = 0;

  Stretch() = default;
  Stretch(const void* data, Index row, Index count, Index bytes)
      : first(static_cast<const char*>(data)), stride(row), rows(count), width(bytes) {
    if (stride != width || rows <= 0) return;
    width *= rows;
    rows = 1;
  }
};

inline Index size_of(ElementType type) {
  return type == ElementType::float64 ? 8 : type == ElementType::float32 ? 4 : 2;
}

// Asks memory for a few stretches, line after line, while there is something to compute. At the end it stays where it
// is, which costs next to nothing.
class Prefetcher {
 public:
  void add(const Stretch& stretch) {
    if (stretch.rows <= 0 || count_ == kMost) return;
    waiting_[count_++] = stretch;
    if (count_ == 1) begin();
  }

  // Calls `use(count, line, stride)`, which is to take `count` steps, at most `most`, and to ask at each for one line,
  // the first at `line`, each next one `stride` bytes further.
  template <class Use>
  [[gnu::always_inline]] void steps(Index most, Use use) {
    const Index count = smaller(most, left_);
    use(count, line_, stride_);
    line_ += count * stride_;
    left_ -= count;
    if (left_ == 0) next_row();
  }

  // So many bytes, counted in lines: what is left over counts the next time.
  [[gnu::always_inline]] void advance(Index bytes) {
    for (owed_ += bytes; owed_ >= 64; owed_ -= 64) {
      __builtin_prefetch(line_);
      line_ += stride_;
      if (__builtin_expect(--left_ == 0, 0)) next_row();
    }
  }

 private:
  void begin() {
    line_ = waiting_[now_].first;
    left_ = (waiting_[now_].width + 63) / 64;
    stride_ = 64;
  }
  [[gnu::noinline]] void next_row() {
    Stretch& now = waiting_[now_];
    now.first += now.stride;
    if (--now.rows == 0) ++now_;
    if (now_ < count_) return begin();
    stride_ = 0;
    left_ = kUnbounded;
  }

  static constexpr int kMost = 5;
  Stretch waiting_[kMost];
  int count_ = 0, now_ = 0;
  const char* line_ = nullptr;
  Index left_ = kUnbounded, stride_ = 0, owed_ = 0;
};

// Where the rows of some keys lie in an operand.
inline Stretch rows_ahead(const Strided& operand, const RowRange& range, Keys keys, Index width) {
  const char* first = operand.at(range.item, range.kv_head, keys.begin);
  return {first, operand.row, keys.end - keys.begin, width * size_of(operand.type)};
}

// The rows of a range in the query or the output, as far as they are of its first head.
inline Stretch queries_ahead(const Arguments& a, const Strided& operand, const RowRange& range, Index width) {
  const RowPlace first = first_place(a, range);
  const Index count = smaller(range.end - range.begin, a.query_len - first.query);
  return {operand.at(range.item, first.head, first.query), operand.row, count, width * size_of(operand.type)};
}

// Their dense biases for some keys.
inline Stretch biases_ahead(const Arguments& a, const RowRange& range, Keys keys) {
  Stretch biases = queries_ahead(a, a.bias, range, keys.end - keys.begin);
  if (a.bias.column > 0) biases.first += keys.begin * a.bias.column;
  return biases;
}

// The tile of keys that a range of rows begins with.
inline Keys first_tile(const Arguments& a, const RowRange& range) {
  Row row;
  describe_row(a, range.item, first_place(a, range), row);
  const Index begin = row.sight.keys.begin / kTileKeys * kTileKeys;
  return {begin, smaller(begin + kTileKeys, a.kv_len)};
}

}  // namespace
}  // namespace headwise
