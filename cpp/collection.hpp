// The second pass: what is collected from the weights of all keys, once a row's maximum and total are known.
#pragma once

#include "arguments.hpp"

namespace headwise {

// Sums of distances may be written so many entries before the first one and behind the last, as zeros.
constexpr Index kOffsetMargin = 64;

// Keys that match a query: of query i of outer item n they are keys[first] to keys[last - 1] with `first` and `last` at
// n · query_len + i, ascending; an item's keys begin at n · kv_len.
struct Stripe {
  const Index *keys, *first, *last;
  void* out;  // (outer, num_heads, query_len): the weight on them
};

// What is asked for; the rest is null. Arrays are of the working precision and hold zeros at first. Queries are cut
// into bands, each with sums of its own, so that whoever adds these up in order gets the same bits with any number of
// threads.
struct Collection {
  Index band_queries = 0, bands = 0;
  // (outer, num_heads, bands, kv_len): the weights that a key gets, from all queries and from the last ones, which
  // begin at `recent_from` (outer, num_heads)
  void *received = nullptr, *recent = nullptr;
  const Index* recent_from = nullptr;
  // (outer, num_heads, bands, offsets_size): the weights by query - key. Query i of a band and key j stand at
  // i - j + kv_len - 1 + kOffsetMargin.
  void* offsets = nullptr;
  // (outer, num_heads, rows, columns): sum and maximum of each block. A block lies in one band.
  void *block_sums = nullptr, *block_maxima = nullptr;
  Index block_queries = 1, block_keys = 1;
  // (outer, bands, num_heads, num_heads): Σ weight · weight of each pair of heads
  double* products = nullptr;
  // (outer, num_heads, query_len, top): the largest weights of a row and their keys, in descending order
  void* top_weights = nullptr;
  Index* top_keys = nullptr;
  Index top = 0;
  const Stripe* stripes = nullptr;
  Index stripe_count = 0;
  // Whether the first pass is made along with the second, strip by strip: scores are kept instead of computed again.
  // Not for few rows, nor where threads share their keys. The bits are the same.
  bool attends = false;

  [[gnu::always_inline]] Index offsets_size(const Arguments& a) const {
    return band_queries + a.kv_len - 1 + 2 * kOffsetMargin;
  }
  [[gnu::always_inline]] Index block_rows(const Arguments& a) const {
    return (a.query_len + block_queries - 1) / block_queries;
  }
  [[gnu::always_inline]] Index block_columns(const Arguments& a) const {
    return (a.kv_len + block_keys - 1) / block_keys;
  }
  [[gnu::always_inline]] Index blocks(const Arguments& a) const { return block_rows(a) * block_columns(a); }
};

// One band of queries in the heads that belong to some key/value heads.
struct Band {
  Index item, kv_begin, kv_end, number;
};

}  // namespace headwise
