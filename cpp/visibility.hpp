// Who may attend: positions, visible ranges of keys, boolean masks and additive biases.
//
// A row's structured masks are one range of keys, known before any score is computed: tiles outside it are
// skipped. What is left to do on a tile of scores is row by row, and costs only what is hidden.
#pragma once

#include "tiles.hpp"

namespace headwise {
namespace {

// The units of scores: those that cost least and lose nothing.
//
//   without a bias   dot products of the scale's sign; the scale's size enters with the exponent, so the difference of
//                    two scores is taken before it is scaled, and equal dot products stay equal
//   with a bias      scaled first, as the contract's order has it; by a power of two less where the scale is so large
//                    that finite scores could overflow
//
// natural units = natural · score;   base-2 exponent of a weight = exponent · (score - maximum)
template <class T>
struct Units {
  static constexpr bool single = sizeof(T) == 4;
  static constexpr double small = single ? 1e-30 : 1e-290, large = single ? 1e30 : 1e290;

  T query = 1;      // factor of the packed queries: -1, 0 or 1
  T score = 1;      // factor of a dot product
  double bias = 1;  // factor of a bias
  double natural = 1;
  double exponent;

  explicit Units(const Arguments& a) {
    const double size = a.scale < 0 ? -a.scale : a.scale;
    if (a.bias.data || (size > 0 && size < small)) {
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

// Describes all rows of a range, one after another.
inline void describe_rows(const Arguments& a, const RowRange& range, Row* rows) {
  for (Index r = range.begin; r < range.end; ++r) rows[r - range.begin] = describe_row(a, range, r);
}

// Where a row's number is in the arrays of statistics.
inline Index place_of(const Arguments& a, Index item, const Row& row) {
  return (item * a.num_heads + row.head) * a.query_len + row.query;
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

// Whether the boolean array and the bias, where given, let a row see key j.
inline bool visible_to_arrays(const Arguments& a, Index item, const Row& row, Index j) {
  if (a.mask.data && !a.mask.at(item, row.head, row.query)[j * a.mask.column]) return false;
  bool visible = true;
  if (a.bias.data)
    with_reader(a.bias, [&](auto reader) {
      visible = reader.read(a.bias.at(item, row.head, row.query) + j * a.bias.column) != -__builtin_inf();
    });
  return visible;
}

// Whether every row sees all of `keys` and nothing is added to their scores: then there is nothing to apply.
inline bool all_visible(const Arguments& a, const Row* rows, Index count, Keys keys) {
  bool all = !a.mask.data && !a.bias.data;
  for (Index r = 0; r < count; ++r) all &= (rows[r].first <= keys.begin) & (keys.end <= rows[r].last);
  return all;
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
inline void add_bias(const Arguments& a, Index item, const Row& row, Keys keys, const Units<T>& units, T* scores,
                     Index step) {
  constexpr T hidden = -T(__builtin_inf());
  if (!a.bias.data) {
    for (Index j = keys.begin; j < keys.end; ++j) scores[(j - keys.begin) * step] *= units.score;
    return;
  }
  const char* bias = a.bias.at(item, row.head, row.query);
  with_reader(a.bias, [&](auto reader) {
    for (Index j = keys.begin; j < keys.end; ++j) {
      const T added = working_bias<T>(reader.read(bias + j * a.bias.column) * units.bias);
      T& score = scores[(j - keys.begin) * step];
      score = added == hidden ? hidden : score * units.score + added;
    }
  });
}

// Dot products of one row become scores: scaled, biased, and -inf where the key is hidden. The score of key j is at
// scores[(j - keys.begin) · step].
template <class T>
inline void apply_visibility(const Arguments& a, Index item, const Row& row, Keys keys, const Units<T>& units,
                             T* scores, Index step) {
  if (a.bias.data || units.score != 1) add_bias(a, item, row, keys, units, scores, step);
  for_hidden_keys(a, item, row, keys, [&](Index j) { scores[(j - keys.begin) * step] = -T(__builtin_inf()); });
}

// Marks the weights of hidden keys as such: -1.
template <class T>
inline void mark_hidden(const Arguments& a, Index item, const Row& row, Keys keys, T* weights, Index step) {
  for (Index j = keys.begin; j < keys.end; ++j)
    if (j < row.first || j >= row.last || !visible_to_arrays(a, item, row, j)) weights[(j - keys.begin) * step] = T(-1);
}

}  // namespace
}  // namespace headwise
