// How many queries see each key, and how many pairs there are at each distance: what sums of weights are divided by.
//
// A row that sees a range of keys adds one to a stretch of each count: it is written where the stretch begins and taken
// off where it ends, and summed up at the end.
#pragma once

#include "observers.hpp"

namespace headwise {
namespace {

// Whether all heads of an item see the same.
inline bool heads_see_alike(const Arguments& a) {
  bool alike = !a.rows_biased();
  for (int s = 0; s < a.mask_steps; ++s) alike &= a.mask[s].kind != MaskStep::array || a.mask[s].query.head == 0;
  return alike;
}

// Counts one row key by key, a tile of keys at a time.
template <class T>
inline void count_row(const Arguments& a, Index item, const Row& row, Index* viewers, Index* pairs) {
  unsigned char pattern[kTileKeys];
  T addends[kTileKeys];
  pairs += row.query + a.kv_len - 1;
  for (Index begin = row.sight.keys.begin; begin < row.sight.keys.end; begin += kTileKeys) {
    const Keys tile{begin, smaller(begin + kTileKeys, row.sight.keys.end)};
    const Seen seen = look(a, item, row, tile, pattern);
    if (seen.keys.empty()) continue;
    fill_addends(a, item, row, seen, tile, 1, addends);
    for (Index k = 0; k < tile.end - tile.begin; ++k) {
      const Index sees = addends[k] != -T(__builtin_inf());
      viewers[tile.begin + k] += sees;
      pairs[-(tile.begin + k)] += sees;
    }
  }
}

// Writes the counts of one head. They hold zeros at first.
template <class T>
inline void count_viewers(const Arguments& a, Index item, Index head, Index* viewers, Index* pairs) {
  const Index distances = a.query_len + a.kv_len - 1;
  const bool ranges = !a.rows_biased();
  const auto mark = [&](Index* from, Index begin, Index end, Index size) {
    ++from[begin];
    if (end < size) --from[end];
  };
  for (Index i = 0; i < a.query_len; ++i) {
    Row row;
    describe_row(a, item, {head, i}, row);
    const Keys keys = row.sight.keys;
    if (!ranges || !row.sight.exact || keys.empty()) continue;
    mark(viewers, keys.begin, keys.end, a.kv_len);
    mark(pairs, i - keys.end + a.kv_len, i - keys.begin + a.kv_len, distances);
  }
  for (Index j = 1; j < a.kv_len; ++j) viewers[j] += viewers[j - 1];
  for (Index d = 1; d < distances; ++d) pairs[d] += pairs[d - 1];
  for (Index i = 0; i < a.query_len && !a.stop(); ++i) {
    Row row;
    describe_row(a, item, {head, i}, row);
    if (!ranges || !row.sight.exact) count_row<T>(a, item, row, viewers, pairs);
  }
}

}  // namespace
}  // namespace headwise
