// The scratch of the second pass: some queries of a band, in all heads of some key/value heads.
#pragma once

#include "similarity.hpp"
#include "top_keys.hpp"
#include "weights.hpp"

namespace headwise {
namespace {

// One head's rows of a strip, and how far their collectors are.
template <class S>
struct HeadStrip {
  using T = typename S::Element;
  Strip<S> strip;
  T *maximum, *share;  // of each lane, so that a weight is e^(score - maximum) · share
  TopKeys<S> top;
  Index* next;    // [stripes][lanes]
  double* found;  // [stripes][lanes]
  bool flawed;    // a row is NaN
};

// The scratch of some queries of a band's heads. With a null buffer it only counts.
template <class S>
struct Gathering {
  using T = typename S::Element;
  const Arguments& a;
  const Collection& c;
  Band band;
  Keys queries;
  const Index heads, strips, tile_keys, weights_size;
  Scratch scratch;
  Block<S> b;
  Index key_size, chunk_size;
  T* keys;             // tiles that had to be copied, one for each key/value head
  char* chunks;        // of few rows
  T* weights;          // [heads][tile_keys + kNear][kStrip]
  Keys* seen;          // the keys of a tile that a head's rows see
  HeadStrip<S>* rows;  // [heads][strips]
  Products<S> products;

  Gathering(const Arguments& arguments, const Collection& collection, const Band& which, Keys some, char* buffer)
      : a(arguments),
        c(collection),
        band(which),
        queries(some),
        heads((which.kv_end - which.kv_begin) * a.group()),
        strips((some.end - some.begin + kStrip<S> - 1) / kStrip<S>),
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
    weights = scratch.take<T>((c.products ? heads : 1) * weights_size);
    seen = scratch.take<Keys>(heads);
    rows = scratch.take<HeadStrip<S>>(heads * strips);
    products = Products<S>::take(scratch, c.products ? heads : 0);
    const Numbers<T> numbers = Numbers<T>::take(scratch, kStrip<S>);
    for (Index k = 0; k < heads * strips; ++k) take_rows(k, numbers);
  }

  bool few() const { return a.rows() < kFewRows; }
  HeadStrip<S>& at(Index head, Index strip) const { return rows[head * strips + strip]; }
  T* weights_of(Index head) const { return weights + (c.products ? head : 0) * weights_size; }
  Index head_of(Index k) const { return band.kv_begin * a.group() + k; }
  Index kv_head_of(Index k) const { return band.kv_begin + k / a.group(); }
  Chunk<S> chunk_of(Index kv_head) const {
    return Chunk<S>(a, {band.item, kv_head, 0, a.rows()}, chunks + (kv_head - band.kv_begin) * chunk_size);
  }

  // Keys of a tile: fewer where the weights of all heads are kept, so that these stay in the second cache.
  static Index keys_at_once(const Arguments& a, const Collection& c) {
    if (!c.products) return kTileKeys;
    const Index room = (512 << 10) / (a.num_heads * kStrip<S> * Index(sizeof(T)));
    return larger<Index>(32, smaller(kTileKeys, room / 32 * 32));
  }

  // Strips of each head: as many as keep their queries in the second cache.
  static Index strips_at_once(const Arguments& a, const Collection& c) {
    const Index heads = c.products ? a.num_heads : a.group();
    const Index strip = larger<Index>(1, heads * a.head_dim) * kStrip<S> * Index(sizeof(T));
    return larger<Index>(1, smaller<Index>(kMaxStrips, (512 << 10) / strip));
  }

 private:
  void take_rows(Index k, const Numbers<T>& numbers) {
    Row* described = scratch.take<Row>(kStrip<S>);
    T* query = scratch.take<T>(few() ? 0 : a.head_dim * kStrip<S>);
    T *maximum = scratch.take<T>(kStrip<S>), *share = scratch.take<T>(kStrip<S>);
    const auto top = TopKeys<S>::take(scratch, c.top);
    Index* next = scratch.take<Index>(c.stripe_count * kStrip<S>);
    double* found = scratch.take<double>(c.stripe_count * kStrip<S>);
    if (scratch.counts()) return;
    const Index first = queries.begin + k % strips * kStrip<S>;
    const Index count = smaller<Index>(kStrip<S>, queries.end - first);
    for (Index r = 0; r < count; ++r) describe_row(a, band.item, {head_of(k / strips), first + r}, described[r]);
    rows[k] = {{described, count, {}, {}, true, false, query, nullptr, nullptr, numbers},
               maximum,
               share,
               top,
               next,
               found,
               false};
  }
};

}  // namespace
}  // namespace headwise
