// The scratch of the second pass: a strip of queries, in all heads of some key/value heads.
#pragma once

#include "similarity.hpp"
#include "top_keys.hpp"
#include "weights.hpp"

namespace headwise {
namespace {

// One head's rows, and how far their collectors are.
template <class S>
struct HeadStrip {
  using T = typename S::Element;
  Strip<S> strip;
  T *maximum, *share;  // of each lane, so that a weight is e^(score - maximum) · share
  T* kept;             // their scores, as the first pass left them; null: they are computed again
  TopKeys<S> top;
  Index* next;    // [stripes][lanes]
  double* found;  // [stripes][lanes]
  bool flawed;    // a row is NaN
};

// The scratch of a strip of queries in a band's heads. With a null buffer it only counts.
template <class S>
struct Gathering {
  using T = typename S::Element;
  const Arguments& a;
  const Collection& c;
  Band band;
  Keys queries;  // at most kStrip
  const Index heads, tile_keys, weights_size;
  Scratch scratch;
  Block<S> b;
  Index key_size, chunk_size;
  T* keys;             // tiles that had to be copied, one for each key/value head
  char* chunks;        // of few rows
  char* attending;     // of the first pass
  T* weights;          // [heads][tile_keys + kNear][kStrip]
  Keys* seen;          // the keys of a tile that a head's rows see
  HeadStrip<S>* rows;  // [heads]
  Products<S> products;

  Gathering(const Arguments& arguments, const Collection& collection, const Band& which, Keys some, char* buffer)
      : a(arguments),
        c(collection),
        band(which),
        queries(some),
        heads((which.kv_end - which.kv_begin) * a.group()),
        tile_keys(keys_at_once(a, c)),
        weights_size((tile_keys + kNear) * kStrip<S>),
        scratch(buffer),
        b(a, {which.item, which.kv_begin, 0, kStrip<S>},
          scratch.take<char>(Block<S>(a, {0, 0, 0, kStrip<S>}, nullptr).scratch.used())) {
    const Index kv_heads = band.kv_end - band.kv_begin;
    key_size = tile_keys * copied_stride<T>(a.head_dim);
    chunk_size = few() ? Chunk<S>(a, {0, 0, 0, a.rows()}, nullptr).scratch.used() : 0;
    keys = scratch.take<T>(kv_heads * key_size);
    chunks = scratch.take<char>(kv_heads * chunk_size);
    attending = scratch.take<char>(c.attends ? block_scratch<S>(a, kStrip<S>) : 0);
    weights = scratch.take<T>((c.products ? heads : 1) * weights_size);
    seen = scratch.take<Keys>(heads);
    rows = scratch.take<HeadStrip<S>>(heads);
    products = Products<S>::take(scratch, c.products ? heads : 0);
    const Numbers<T> numbers = Numbers<T>::take(scratch, kStrip<S>);
    for (Index head = 0; head < heads; ++head) take_rows(head, numbers);
  }

  bool few() const { return a.rows() < kFewRows; }
  T* weights_of(Index head) const { return weights + (c.products ? head : 0) * weights_size; }
  Index head_of(Index k) const { return band.kv_begin * a.group() + k; }
  Index kv_head_of(Index k) const { return band.kv_begin + k / a.group(); }
  Chunk<S> chunk_of(Index kv_head) const {
    return Chunk<S>(a, {band.item, kv_head, 0, a.rows()}, chunks + (kv_head - band.kv_begin) * chunk_size);
  }

  // The kept scores that are needed after those of some keys: the next head's, or the first one's of the next keys.
  const T* kept_next(const HeadStrip<S>& h, Keys keys) const {
    const bool last = &h + 1 == rows + heads;
    return last ? rows[0].kept + keys.end * kStrip<S> : (&h + 1)->kept + keys.begin * kStrip<S>;
  }

  // Keys of a tile: fewer where the weights of all heads are kept, so that these stay in the second cache.
  static Index keys_at_once(const Arguments& a, const Collection& c) {
    if (!c.products) return kTileKeys;
    const Index room = (512 << 10) / (a.num_heads * kStrip<S> * Index(sizeof(T)));
    return larger<Index>(32, smaller(kTileKeys, room / 32 * 32));
  }

 private:
  void take_rows(Index head, const Numbers<T>& numbers) {
    Row* described = scratch.take<Row>(kStrip<S>);
    T* kept = c.attends ? scratch.take<T>((a.kv_len + kNear) * kStrip<S>) : nullptr;
    T* query = scratch.take<T>(few() ? 0 : a.head_dim * kStrip<S>);
    T *maximum = scratch.take<T>(kStrip<S>), *share = scratch.take<T>(kStrip<S>);
    const auto top = TopKeys<S>::take(scratch, c.top);
    Index* next = scratch.take<Index>(c.stripe_count * kStrip<S>);
    double* found = scratch.take<double>(c.stripe_count * kStrip<S>);
    if (scratch.counts()) return;
    const Index count = queries.end - queries.begin;
    for (Index r = 0; r < count; ++r) describe_row(a, band.item, {head_of(head), queries.begin + r}, described[r]);
    rows[head] = {{described, count, {}, {}, true, false, query, nullptr, nullptr, numbers},
                  maximum,
                  share,
                  kept,
                  top,
                  next,
                  found,
                  false};
  }
};

}  // namespace
}  // namespace headwise
