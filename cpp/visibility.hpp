// Who may attend. The mask is a small program (see MaskStep); here it is asked two things, first for a row against all
// its keys, then, where that leaves a doubt, for a row against one tile:
//
//   Sight    a range of keys that holds all the row sees, and whether it sees every one of them
//   pattern  one byte for each key, computed only where a sight is not exact
//
// Tiles outside every sight are skipped; within a tile only what lies between the first and the last visible key of
// a strip is computed. What is left to do on a tile of scores costs only what is hidden.
#pragma once

#include "tiles.hpp"

namespace headwise {
namespace {

// A range of keys.
struct Keys {
  Index begin, end;
  bool empty() const { return begin >= end; }
};

inline Keys common(Keys one, Keys other) { return {larger(one.begin, other.begin), smaller(one.end, other.end)}; }

// The smallest range that holds both; an empty one, wherever it lies, adds nothing.
inline Keys hull(Keys one, Keys other) {
  if (other.empty()) return one;
  if (one.empty()) return other;
  return {smaller(one.begin, other.begin), larger(one.end, other.end)};
}

// The row sees no key outside `keys`; where `exact`, it sees all of them.
struct Sight {
  Keys keys;
  bool exact;
};

// One query of one head, where it stands on the keys' axis, and what it sees.
struct Row {
  Index head, query, position;
  Sight sight;
};

inline Sight sight_of_both(Sight one, Sight other) { return {common(one.keys, other.keys), one.exact && other.exact}; }

inline bool holds(Sight whole, Sight part) {
  return whole.exact && whole.keys.begin <= part.keys.begin && part.keys.end <= whole.keys.end;
}

inline Sight sight_of_either(Sight one, Sight other) {
  if (one.keys.empty() || holds(other, one)) return other;
  if (other.keys.empty() || holds(one, other)) return one;
  const bool touch = one.keys.begin <= other.keys.end && other.keys.begin <= one.keys.end;
  return {hull(one.keys, other.keys), touch && one.exact && other.exact};
}

inline Index read_index(const char* p) {
  Index x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// The keys within `keys` that a leaf of bands or ranges shows.
inline Keys range_of_leaf(const MaskStep& leaf, Index item, const Row& row, Keys keys) {
  if (leaf.kind == MaskStep::ranges) {
    const char* pair = leaf.query.at(item, 0, row.query);
    return common(keys, {read_index(pair), read_index(pair + sizeof(Index))});
  }
  if (leaf.left != kUnbounded) keys.begin = larger(keys.begin, row.position - leaf.left);
  if (leaf.right != kUnbounded) keys.end = smaller(keys.end, row.position + leaf.right + 1);
  return keys;
}

inline bool is_range(const MaskStep& leaf) { return leaf.kind == MaskStep::band || leaf.kind == MaskStep::ranges; }

// What the row may see of `keys`.
inline Sight sight_of(const Arguments& a, Index item, const Row& row, Keys keys) {
  Sight stack[kMaskDepth];
  int top = -1;
  for (const MaskStep* step = a.mask; step < a.mask + a.mask_steps; ++step) {
    if (step->kind == MaskStep::all_of || step->kind == MaskStep::any_of) {
      --top;
      stack[top] = step->kind == MaskStep::all_of ? sight_of_both(stack[top], stack[top + 1])
                                                  : sight_of_either(stack[top], stack[top + 1]);
    } else if (is_range(*step)) {
      stack[++top] = {range_of_leaf(*step, item, row, keys), true};
    } else {
      stack[++top] = {keys, false};
    }
  }
  if (top < 0) return {keys, true};
  return stack[0].keys.empty() ? Sight{{keys.begin, keys.begin}, true} : stack[0];
}

constexpr Index kTileKeys = 256;

// One leaf's bytes for each key: 1 where the row sees it.
inline void pattern_of_leaf(const MaskStep& leaf, Index item, const Row& row, Keys keys, unsigned char* seen) {
  const Index count = keys.end - keys.begin;
  if (is_range(leaf)) {
    const Keys range = range_of_leaf(leaf, item, row, keys);
    for (Index k = 0; k < count; ++k) seen[k] = (range.begin <= keys.begin + k) & (keys.begin + k < range.end);
  } else if (leaf.kind == MaskStep::same) {
    const Index id = read_index(leaf.query.at(item, 0, row.query));
    const char* other = leaf.key.at(item, 0, keys.begin);
    for (Index k = 0; k < count; ++k) seen[k] = read_index(other + k * leaf.key.row) == id;
  } else {
    const char* bytes = leaf.query.at(item, row.head, row.query) + keys.begin * leaf.query.column;
    if (leaf.query.column == 1) {
      for (Index k = 0; k < count; ++k) seen[k] = bytes[k] != 0;
    } else {
      for (Index k = 0; k < count; ++k) seen[k] = bytes[k * leaf.query.column] != 0;
    }
  }
}

// The whole program's bytes for at most a tile of keys: written to `seen`, or a lone array's own.
inline const unsigned char* pattern_of(const Arguments& a, Index item, const Row& row, Keys keys, unsigned char* seen) {
  if (a.mask_steps == 1 && a.mask->kind == MaskStep::array && a.mask->query.column == 1)
    return reinterpret_cast<const unsigned char*>(a.mask->query.at(item, row.head, row.query)) + keys.begin;
  unsigned char waiting[kMaskDepth - 1][kTileKeys];
  int top = -1;
  const auto place = [&](int n) { return n ? waiting[n - 1] : seen; };
  for (const MaskStep* step = a.mask; step < a.mask + a.mask_steps; ++step) {
    if (step->kind != MaskStep::all_of && step->kind != MaskStep::any_of) {
      pattern_of_leaf(*step, item, row, keys, place(++top));
      continue;
    }
    --top;
    unsigned char* into = place(top);
    const unsigned char* from = place(top + 1);
    if (step->kind == MaskStep::all_of) {
      for (Index k = 0; k < keys.end - keys.begin; ++k) into[k] &= from[k];
    } else {
      for (Index k = 0; k < keys.end - keys.begin; ++k) into[k] |= from[k];
    }
  }
  return seen;
}

// What one row sees of a tile: keys in a range, all of them where there is no pattern.
struct Seen {
  Keys keys;
  const unsigned char* pattern;  // for keys from `base` on, or null
  Index base;
};

// Looks at a tile with a row's eyes. `buffer` takes its pattern, where one is needed.
inline Seen look(const Arguments& a, Index item, const Row& row, Keys tile, unsigned char* buffer) {
  const Keys near = common(row.sight.keys, tile);
  if (row.sight.exact || near.empty()) return {near, nullptr, 0};
  const Sight sight = sight_of(a, item, row, near);
  if (sight.exact) return {sight.keys, nullptr, 0};
  Seen seen{sight.keys, pattern_of(a, item, row, sight.keys, buffer), sight.keys.begin};
  while (!seen.keys.empty() && !seen.pattern[seen.keys.begin - seen.base]) ++seen.keys.begin;
  while (!seen.keys.empty() && !seen.pattern[seen.keys.end - 1 - seen.base]) --seen.keys.end;
  return seen;
}

// The smallest range that holds what every row sees.
inline Keys seen_keys(const Seen* seen, Index count) {
  Keys keys{0, 0};
  for (Index r = 0; r < count; ++r) keys = hull(keys, seen[r].keys);
  return keys;
}

// Whether every row sees all of `keys`.
inline bool all_seen(const Seen* seen, Index count, Keys keys) {
  bool all = true;
  for (Index r = 0; r < count; ++r)
    all &= !seen[r].pattern & (seen[r].keys.begin <= keys.begin) & (keys.end <= seen[r].keys.end);
  return all;
}

// Calls `hide(j)` for every key in `keys` outside the range that a row sees.
template <class Hide>
inline void for_hidden_keys(const Seen& seen, Keys keys, Hide hide) {
  for (Index j = keys.begin; j < smaller(seen.keys.begin, keys.end); ++j) hide(j);
  for (Index j = larger(seen.keys.end, keys.begin); j < keys.end; ++j) hide(j);
}

// The head and the query that a range of rows begins with.
struct RowPlace {
  Index head, query;
};

inline RowPlace first_place(const Arguments& a, const RowRange& range) {
  return {range.kv_head * a.group() + range.begin / a.query_len, range.begin % a.query_len};
}

inline void describe_row(const Arguments& a, Index item, RowPlace place, Row& row) {
  row.head = place.head;
  row.query = place.query;
  row.position = row.query + a.query_offset[item];
  row.sight = a.mask_steps ? sight_of(a, item, row, {0, a.kv_len}) : Sight{{0, a.kv_len}, true};
}

// Describes all rows of a range, one after another.
inline void describe_rows(const Arguments& a, const RowRange& range, Row* rows) {
  RowPlace place = first_place(a, range);
  for (Index r = 0; r < range.end - range.begin; ++r) {
    describe_row(a, range.item, place, rows[r]);
    if (++place.query == a.query_len) place = {place.head + 1, 0};
  }
}

// The keys that at least one of the rows may see.
inline Keys visible_keys(const Row* rows, Index count) {
  Keys seen{0, 0};
  for (Index r = 0; r < count; ++r) seen = hull(seen, rows[r].sight.keys);
  return seen;
}

// The keys that every row surely sees.
inline Keys shared_keys(const Row* rows, Index count) {
  Keys keys{0, kUnbounded};
  for (Index r = 0; r < count; ++r) keys = rows[r].sight.exact ? common(keys, rows[r].sight.keys) : Keys{0, 0};
  return keys;
}

// The lowest and the highest position of some rows.
inline Keys standing_of(const Row* rows, Index count) {
  Keys standing{rows[0].position, rows[0].position};
  for (Index r = 1; r < count; ++r)
    standing = {smaller(standing.begin, rows[r].position), larger(standing.end, rows[r].position)};
  return standing;
}

// Where a row's number is in the arrays of statistics.
inline Index place_of(const Arguments& a, Index item, const Row& row) {
  return (item * a.num_heads + row.head) * a.query_len + row.query;
}

// And where its output is.
inline char* place_of_output(const Arguments& a, Index item, const Row& row) {
  return a.output + (a.output_layout.at(item, row.head, row.query) - a.output_layout.data);
}

}  // namespace
}  // namespace headwise
