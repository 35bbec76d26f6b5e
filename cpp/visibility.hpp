// Who may attend: positions, visible ranges of keys, boolean masks and additive biases.
//
// A row's structured masks are one range of keys, known before any score is computed: tiles outside it are
// skipped. What is left to do on a tile of scores is row by row, and costs only what is hidden.
#pragma once

#include "tiles.hpp"

namespace headwise {
namespace {

// Scores are kept in the units that cost least and lose nothing. Without a bias they are plain dot products, of the
// scale's sign, and its size enters with the exponent: the difference of two scores is rounded before it is scaled,
// and equal dot products stay equal. With a bias they are scaled first, as the contract's order has it.
template <class T>
struct Units {
  T query;          // factor of the packed queries: -1, 0 or 1
  T score;          // factor of a dot product before a bias is added
  double natural;   // natural units in one unit of score
  double exponent;  // base-2 units in one unit of score

  explicit Units(const Arguments& a) : query(1), score(1), natural(1) {
    const double size = a.scale < 0 ? -a.scale : a.scale;
    if (a.bias.data || (size > 0 && size < 1e-30)) {
      score = T(a.scale);
    } else {
      query = T(a.scale > 0) - T(a.scale < 0);
      natural = size > 0 ? size : 1;
    }
    exponent = natural * 1.4426950408889634074;
  }
};

// One query of one head and the keys [first, last) that its structured masks let it see.
struct Row {
  Index head, query, position, first, last;
};

inline Row describe_row(const Arguments& a, const RowRange& range, Index r) {
  Row row;
  row.head = range.kv_head * a.group() + r / a.query_len;
  row.query = r % a.query_len;
  row.position = row.query + a.query_offset[range.item];
  row.first = a.left == kUnbounded ? 0 : larger<Index>(0, row.position - a.left);
  row.last = a.right == kUnbounded ? a.kv_len : smaller<Index>(a.kv_len, row.position + a.right + 1);
  row.first = smaller(row.first, a.kv_len);
  row.last = larger(row.last, row.first);
  return row;
}

// A range of keys.
struct Keys {
  Index begin, end;
  bool empty() const { return begin >= end; }
};

// The keys in `within` that at least one of the rows may see.
inline Keys visible_keys(const Row* rows, Index count, Keys within) {
  Keys seen{within.end, within.begin};
  for (Index r = 0; r < count; ++r) {
    if (rows[r].first >= rows[r].last) continue;
    seen.begin = smaller(seen.begin, rows[r].first);
    seen.end = larger(seen.end, rows[r].last);
  }
  return {larger(seen.begin, within.begin), smaller(seen.end, within.end)};
}

// Calls `hide(j)` for every key in `keys` that the row may not see.
template <class Hide>
inline void for_hidden_keys(const Arguments& a, Index item, const Row& row, Keys keys, Hide hide) {
  const Index first = larger(row.first, keys.begin), last = smaller(row.last, keys.end);
  for (Index j = keys.begin; j < smaller(first, keys.end); ++j) hide(j);
  for (Index j = larger(last, keys.begin); j < keys.end; ++j) hide(j);
  if (!a.mask.data) return;
  const char* mask = a.mask.at(item, row.head, row.query);
  const Index step = a.mask.column;
  Index j = first;
  while (j < last) {
    std::uint64_t eight = 0;
    if (step == 1 && j + 8 <= last) std::memcpy(&eight, mask + j, 8);
    if (eight == 0x0101010101010101u) {
      j += 8;
    } else {
      if (!mask[j * step]) hide(j);
      ++j;
    }
  }
}

// A bias in the working precision. A finite one stays finite, -1e300 in float32 too: only an infinite one hides its
// key.
template <class T>
inline T working_bias(double bias) {
  constexpr double most = sizeof(T) == 4 ? 3.4028234663852886e38 : 1.7976931348623157e308;
  return bias - bias != 0 ? T(bias) : T(larger(-most, smaller(most, bias)));
}

// Scales a row of dot products and adds the bias. A bias of -inf hides its key whatever the score is, NaN included.
template <class T>
inline void add_bias(const Arguments& a, Index item, const Row& row, Keys keys, T factor, T* scores, Index step) {
  constexpr T hidden = -T(__builtin_inf());
  if (!a.bias.data) {
    for (Index j = keys.begin; j < keys.end; ++j) scores[(j - keys.begin) * step] *= factor;
    return;
  }
  const char* bias = a.bias.at(item, row.head, row.query);
  with_reader(a.bias, [&](auto reader) {
    for (Index j = keys.begin; j < keys.end; ++j) {
      const T added = working_bias<T>(reader.read(bias + j * a.bias.column));
      T& score = scores[(j - keys.begin) * step];
      score = added == hidden ? hidden : score * factor + added;
    }
  });
}

// Dot products of one row become scores: scaled, biased, and -inf where the key is hidden. The score of key j is at
// scores[(j - keys.begin) · step].
template <class T>
inline void apply_visibility(const Arguments& a, Index item, const Row& row, Keys keys, T* scores, Index step) {
  const T factor = Units<T>(a).score;
  if (a.bias.data || factor != 1) add_bias(a, item, row, keys, factor, scores, step);
  for_hidden_keys(a, item, row, keys, [&](Index j) { scores[(j - keys.begin) * step] = -T(__builtin_inf()); });
}

// Marks the weights of hidden keys as such: -1.
template <class T>
inline void mark_hidden(const Arguments& a, Index item, const Row& row, Keys keys, T* weights, Index step) {
  for_hidden_keys(a, item, row, keys, [&](Index j) { weights[(j - keys.begin) * step] = T(-1); });
  if (!a.bias.data) return;
  const char* bias = a.bias.at(item, row.head, row.query);
  with_reader(a.bias, [&](auto reader) {
    for (Index j = keys.begin; j < keys.end; ++j)
      if (reader.read(bias + j * a.bias.column) == -__builtin_inf()) weights[(j - keys.begin) * step] = T(-1);
  });
}

}  // namespace
}  // namespace headwise
