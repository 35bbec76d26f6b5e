// The second pass: weights of all keys, once a row's maximum and total are known, go past the collectors.
//
//   for each strip of queries
//     first pass in each head, where scores are kept       blocks.hpp
//     for each tile of keys
//       for each head                                      (all heads, where pairs of them are compared)
//         weights = e^(key · query - maximum) / total      [keys][lanes], as in the first pass
//         received, offsets, blocks, top keys, stripes     collectors.hpp
//       products of the heads' weights                     similarity.hpp
//
// Scores were kept, or are computed again, in the order of the kernel that found the maximum: with few rows by
// decode.hpp, and turned to lanes.
#pragma once

#include "gathering.hpp"

namespace headwise {
namespace {

// The place of a head's row in an array (outer, num_heads, query_len).
template <class S>
inline Index place_of_row(const Gathering<S>& g, const HeadStrip<S>& h, Index r) {
  return place_of(g.a, g.band.item, h.strip.rows[r]);
}

// Scores become weights, which may take their places. Memory brings what lies at `next`.
template <class S>
inline void weigh_lanes(const Gathering<S>& g, const HeadStrip<S>& h, const typename S::Element* scores,
                        typename S::Element* weights, Index count, const typename S::Element* next) {
  using V = typename S::Vector;
  const Exponent<S> exponent(g.b.units.exponent);
  V maximum[kVectors<S>], share[kVectors<S>];
  for (int v = 0; v < kVectors<S>; ++v) {
    maximum[v] = S::load(h.maximum + v * S::width);
    share[v] = S::load(h.share + v * S::width);
  }
  for (Index k = 0; k < count; ++k)
    for (int v = 0; v < kVectors<S>; ++v, scores += S::width, weights += S::width, next += S::width) {
      __builtin_prefetch(next, 0, 2);
      const V below = exponent.clip(S::sub(S::load(scores), maximum[v]));
      S::store(weights, S::mul(exp2<S>(below, exponent), share[v]));
    }
}

// Weights up to which no key is among a row's largest: a little below that of the bound that the first pass found.
template <class S>
inline void begin_top(const Gathering<S>& g, const HeadStrip<S>& h) {
  using T = typename S::Element;
  const T* bounds = static_cast<const T*>(g.a.statistics[kTopBound]);
  T least[kStrip<S>];
  for (Index r = 0; r < kStrip<S>; ++r)
    least[r] = bounds && r < h.strip.count ? bounds[place_of_row(g, h, r)] : -T(__builtin_inf());
  weigh_lanes(g, h, least, least, 1, least);
  for (int v = 0; v < kStrip<S>; v += S::width) S::store(least + v, just_below<S>(S::load(least + v)));
  h.top.init(least);
}

template <class S>
inline void begin_head(const Gathering<S>& g, HeadStrip<S>& h) {
  using T = typename S::Element;
  if (!g.few()) begin_strip<S>(g.a, g.b.units, g.band.item, h.strip);
  for (Index r = 0; r < kStrip<S>; ++r) h.maximum[r] = h.share[r] = 0;
  for (Index r = 0; r < h.strip.count; ++r) {
    const Row& row = h.strip.rows[r];
    const Final<T> end(g.a, g.band.item, row);
    h.maximum[r] = end.maximum;
    h.share[r] = 1 / end.total;
    h.flawed |= !(h.share[r] >= 0 && end.maximum == end.maximum);
    for (Index s = 0; s < g.c.stripe_count; ++s) {
      h.next[s * kStrip<S> + r] = g.c.stripes[s].first[g.band.item * g.a.query_len + row.query];
      h.found[s * kStrip<S> + r] = 0;
    }
  }
  if (g.c.top) begin_top<S>(g, h);
}

// In a row that is NaN the hidden keys are not.
template <class S, class SeenOf>
inline void clear_hidden(const Gathering<S>& g, const HeadStrip<S>& h, Keys keys, typename S::Element* weights,
                         SeenOf seen_of) {
  using T = typename S::Element;
  T addends[kTileKeys];
  for (Index r = 0; r < h.strip.count; ++r) {
    fill_addends(g.a, g.band.item, h.strip.rows[r], seen_of(r), keys, 1, addends);
    for (Index k = 0; k < keys.end - keys.begin; ++k)
      if (addends[k] == -T(__builtin_inf())) weights[k * kStrip<S> + r] = 0;
  }
}

// Lanes without a row weigh nothing, not even where a key that is hidden from all rows is NaN.
template <class S>
inline void clear_unused(const HeadStrip<S>& h, typename S::Element* weights, Index count) {
  for (Index k = 0; k < count; ++k)
    for (Index r = h.strip.count; r < kStrip<S>; ++r) weights[k * kStrip<S> + r] = 0;
}

// The weights of a head's strip on the keys of a tile that any of its rows sees, from `weights` on, where the tile
// begins. Returns these keys. `key` is not read where scores are kept.
template <class S>
inline Keys weigh_strip_of(Gathering<S>& g, const HeadStrip<S>& h, Keys tile, const Tile<typename S::Element>* key,
                           typename S::Element* weights) {
  const View<S> view = view_tile(g.b, h.strip, tile);
  const Index skipped = view.keys.begin - tile.begin, count = view.keys.end - view.keys.begin;
  if (view.keys.empty()) return view.keys;
  weights += skipped * kStrip<S>;
  if (h.kept) {
    weigh_lanes(g, h, h.kept + view.keys.begin * kStrip<S>, weights, count, g.kept_next(h, view.keys));
  } else {
    g.b.scores = weights;
    typename S::Vector maximum[kVectors<S>];
    score_visible<S>(g.b, h.strip, view, {key->data + skipped * key->stride, key->stride}, maximum);
    weigh_lanes(g, h, weights, weights, count, weights);
  }
  if (h.strip.count < kStrip<S>) clear_unused(h, weights, count);
  if (h.flawed) clear_hidden(g, h, view.keys, weights, [&](Index r) { return view.of(r); });
  return view.keys;
}

// The same of few rows: all rows of a key/value head were scored at once.
template <class S>
inline Keys weigh_rows_of(const Gathering<S>& g, const HeadStrip<S>& h, Index head, Keys tile,
                          typename S::Element* weights) {
  const Chunk<S> chunk = g.chunk_of(g.kv_head_of(head));
  const Index first = head % g.a.group() * g.a.query_len + h.strip.rows[0].query;
  const Keys keys{tile.begin, seen_keys(chunk.seen, chunk.count).end};
  if (keys.empty()) return keys;
  const Index count = keys.end - keys.begin;
  for (Index r = 0; r < kStrip<S>; ++r)
    for (Index k = 0; k < count; ++k)
      weights[k * kStrip<S> + r] = r < h.strip.count ? chunk.scores.row(first + r)[k] : 0;
  weigh_lanes(g, h, weights, weights, count, weights);
  if (h.flawed) clear_hidden(g, h, keys, weights, [&](Index r) { return chunk.seen[first + r]; });
  return keys;
}

template <class S>
inline void collect_head(const Gathering<S>& g, const HeadStrip<S>& h, Index head, const StripWeights<S>& w) {
  using T = typename S::Element;
  const Arguments& a = g.a;
  const Collection& c = g.c;
  const Index place = g.band.item * a.num_heads + head, banded = place * c.bands + g.band.number;
  const auto part = [](void* array, Index from) { return static_cast<T*>(array) + from; };
  if (c.received) collect_received<S>(w, nullptr, part(c.received, banded * a.kv_len));
  if (c.recent && c.recent_from[place] < w.queries.end) {
    const Chosen<S> chosen(w.queries, {c.recent_from[place], w.queries.end});
    collect_received<S>(w, &chosen, part(c.recent, banded * a.kv_len));
  }
  if (c.offsets) {
    const Index first = w.queries.begin - g.band.number * c.band_queries;
    collect_offsets<S>(
        w, part(c.offsets, banded * c.offsets_size(a)) + kOffsetMargin + first - w.keys.begin + a.kv_len - 1);
  }
  if (c.block_sums) {
    const Index from = place * c.blocks(a);
    collect_blocks<S>(a, c, w, part(c.block_sums, from), part(c.block_maxima, from));
  }
  if (c.top) collect_top<S>(w, h.top);
  for (Index s = 0; s < c.stripe_count; ++s)
    for (Index r = 0; r < h.strip.count; ++r) {
      const Index query = g.band.item * a.query_len + w.queries.begin + r;
      collect_stripe<S>(w, r, c.stripes[s].keys + g.band.item * a.kv_len, c.stripes[s].last[query],
                        h.next[s * kStrip<S> + r], h.found[s * kStrip<S> + r]);
    }
}

// The products of all heads' weights, over the keys that any of them sees.
template <class S>
inline void collect_products(const Gathering<S>& g, Keys tile) {
  using T = typename S::Element;
  Keys all{0, 0};
  for (Index head = 0; head < g.heads; ++head) all = hull(all, g.seen[head]);
  const auto clear = [&](Index head, Index begin, Index end) {
    T* weights = g.weights_of(head);
    if (begin < end)
      std::fill(weights + (begin - tile.begin) * kStrip<S>, weights + (end - tile.begin) * kStrip<S>, T(0));
  };
  for (Index head = 0; head < g.heads; ++head) {
    const Keys own = g.seen[head].empty() ? Keys{all.end, all.end} : g.seen[head];
    clear(head, all.begin, own.begin);
    clear(head, own.end, all.end);
  }
  g.products.add(g.weights + (all.begin - tile.begin) * kStrip<S>, g.weights_size, (all.end - all.begin) * kVectors<S>);
}

template <class S>
inline void collect_tile(Gathering<S>& g, Keys tile, const Tile<typename S::Element>* keys, Index last) {
  for (Index head = 0; head < g.heads; ++head) {
    const HeadStrip<S>& h = g.rows[head];
    const Index kv = head / g.a.group();
    typename S::Element* weights = g.weights_of(head);
    if (!h.kept && head % g.a.group() == 0) {
      g.b.ahead = {};
      g.b.ahead.add(rows_ahead(g.a.key, {g.band.item, g.kv_head_of(head), 0, 0},
                               {tile.end, smaller(tile.end + g.tile_keys, last)}, g.a.head_dim));
    }
    g.seen[head] =
        g.few() ? weigh_rows_of<S>(g, h, head, tile, weights) : weigh_strip_of<S>(g, h, tile, keys + kv, weights);
    if (g.seen[head].empty()) continue;
    collect_head<S>(g, h, g.head_of(head),
                    {weights + (g.seen[head].begin - tile.begin) * kStrip<S>, g.queries, g.seen[head]});
  }
  if (g.c.products) collect_products<S>(g, tile);
}

// Scores of all rows of a key/value head against a tile, where there are few.
template <class S>
inline void score_few_rows(const Gathering<S>& g, Index kv_head, Keys tile) {
  Chunk<S> chunk = g.chunk_of(kv_head);
  if (tile.begin == 0) begin_rows(chunk);
  const Keys keys = view_rows(chunk, tile);
  if (!keys.empty()) score_visible_rows(chunk, keys, run_ahead(chunk, g.a.key, keys.end, g.a.head_dim));
}

// The first pass of a strip's rows in one head: their scores are kept.
template <class S>
inline void attend_strip(const Gathering<S>& g, Index head) {
  const Arguments& a = g.a;
  const auto rows_of = [&](Index k) {
    const Index first = k % a.group() * a.query_len;
    return RowRange{g.band.item, g.kv_head_of(k), first + g.queries.begin, first + g.queries.end};
  };
  const RowRange next = head + 1 < g.heads ? rows_of(head + 1) : RowRange{};
  const auto end = [](const auto& b, const auto& strip) { return end_strip(b, strip); };
  optimistically([&](bool careful) {
    return attend_rows<S>(a, rows_of(head), next, {0, a.kv_len}, g.attending, careful, end, g.rows[head].kept);
  });
}

// A strip of queries in a band's heads against all keys.
template <class S>
inline void collect_strip(Gathering<S>& g, Tile<typename S::Element>* tiles) {
  const Arguments& a = g.a;
  for (Index head = 0; g.c.attends && head < g.heads; ++head) attend_strip(g, head);
  if (a.stop()) return;
  Keys visible{0, 0};
  for (Index head = 0; head < g.heads; ++head) {
    begin_head<S>(g, g.rows[head]);
    visible = hull(visible, visible_keys(g.rows[head].strip.rows, g.rows[head].strip.count));
  }
  for (Index begin = g.few() ? 0 : visible.begin / g.tile_keys * g.tile_keys; begin < visible.end && !a.stop();
       begin += g.tile_keys) {
    const Keys tile{begin, smaller(begin + g.tile_keys, visible.end)};
    for (Index kv = g.band.kv_begin; kv < g.band.kv_end; ++kv) {
      if (g.few()) {
        score_few_rows(g, kv, tile);
      } else if (!g.c.attends) {
        tiles[kv - g.band.kv_begin] = load_tile<S>(a.key, a.key.at(g.band.item, kv, tile.begin), tile.end - tile.begin,
                                                   a.head_dim, true, g.keys + (kv - g.band.kv_begin) * g.key_size);
      }
    }
    collect_tile<S>(g, tile, tiles, visible.end);
  }
}

// What is written once the rows have seen all keys.
template <class S>
inline void end_heads(const Gathering<S>& g) {
  using T = typename S::Element;
  for (Index s = 0; s < g.c.stripe_count; ++s)
    for (const HeadStrip<S>* h = g.rows; h < g.rows + g.heads; ++h)
      for (Index r = 0; r < h->strip.count; ++r)
        static_cast<T*>(g.c.stripes[s].out)[place_of_row(g, *h, r)] = T(h->found[s * kStrip<S> + r]);
  for (const HeadStrip<S>* h = g.rows; g.c.top && h < g.rows + g.heads; ++h)
    for (Index r = 0; r < h->strip.count; ++r) {
      const Index place = place_of_row(g, *h, r) * g.c.top;
      h->top.leave(r, static_cast<T*>(g.c.top_weights) + place, g.c.top_keys + place);
    }
  if (!g.c.products) return;
  double* products = g.c.products + (g.band.item * g.c.bands + g.band.number) * g.a.num_heads * g.a.num_heads;
  g.products.leave(products);
}

template <class S>
inline void collect(const Arguments& a, const Collection& c, const Band& band, char* buffer) {
  Scratch scratch(buffer);
  auto* tiles = scratch.take<Tile<typename S::Element>>(band.kv_end - band.kv_begin);
  const Index begin = band.number * c.band_queries, end = smaller(begin + c.band_queries, a.query_len);
  for (Index first = begin; first < end && !a.stop(); first += kStrip<S>) {
    Gathering<S> g(a, c, band, {first, smaller(first + kStrip<S>, end)}, buffer + scratch.used());
    collect_strip<S>(g, tiles);
    if (!a.stop()) end_heads<S>(g);
  }
}

// Scratch for a band of so many key/value heads.
template <class S>
inline Index collect_scratch(const Arguments& a, const Collection& c, Index kv_heads) {
  Scratch scratch(nullptr);
  scratch.take<Tile<typename S::Element>>(kv_heads);
  return scratch.used() + Gathering<S>(a, c, {0, 0, kv_heads, 0}, {0, kStrip<S>}, nullptr).scratch.used();
}

}  // namespace
}  // namespace headwise
