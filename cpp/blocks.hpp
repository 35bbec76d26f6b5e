// Many queries: a block of rows against all the keys it may see.
//
//   for each tile of keys                      (a few hundred KB of keys and values in the second cache)
//     for each strip of queries in the block   (its query, scores and sums in the first cache)
//       scores  = key · query                  products.hpp
//       bias, masks                            visibility.hpp
//       weights = e^(scores - maximum)         online_softmax.hpp; the observers update
//       sums    = sums · correction + weights · value
//
// Every lane works for itself: the bits of a row do not depend on the rows beside it, nor on the block's size.
#pragma once

#include "endings.hpp"
#include "online_softmax.hpp"
#include "products.hpp"

namespace headwise {
namespace {

template <class S>
struct Strip {
  using T = typename S::Element;
  const Row* rows;
  Index count;    // rows in use, at most kStrip
  Keys shared;    // keys that all rows see
  Keys standing;  // from the lowest position of a row to the highest
  bool counted;   // what its rows see is counted already
  bool begun;     // there are sums of a tile before
  T* query;       // [head_dim][kStrip]
  T* sums;        // [value_dim][kStrip]
  T* leading;     // [bounding][kStrip]: the largest scores of tiles, in descending order; null: not asked for
  Numbers<T> numbers;
};

// A tile as the rows of a strip see it, and the part of it that any of them sees.
template <class S>
struct View {
  Keys keys;
  bool whole;  // every row sees all of it: `seen` is not filled in
  Seen seen[kStrip<S>];

  Seen of(Index r) const { return whole ? Seen{keys, nullptr, 0} : seen[r]; }

  bool patterned(Index count) const {
    bool any = false;
    for (Index r = 0; r < count && !whole; ++r) any |= seen[r].pattern != nullptr;
    return any;
  }
};

// A block's scratch. With a null buffer it only counts.
template <class S>
struct Block {
  using T = typename S::Element;
  const Arguments& a;
  const Units<T> units;
  RowRange range, next = {};  // next: what will probably follow
  Index strips;
  Scratch scratch;
  Row* rows;
  T *weights, *scores;  // of a tile, in one place unless the scores are to stay
  T* kept = nullptr;    // [kv_len + kNear][kStrip]: where those of the block's only strip stay; null: nowhere
  T *key, *value;
  T* addends;                                                // of a vector of rows
  const Index addends_stride = copied_stride<T>(kTileKeys);  // from one row to the next
  T *correction, *offset, *where;                            // one number for each lane of a strip
  unsigned char* patterns;                                   // of a strip's rows, kTileKeys each
  const bool weighs, observes;                               // see Arguments
  bool careful = false;
  Prefetcher ahead;

  Block(const Arguments& arguments, const RowRange& r, char* buffer)
      : a(arguments),
        units(a),
        range(r),
        strips((r.end - r.begin + kStrip<S> - 1) / kStrip<S>),
        scratch(buffer),
        weighs(a.weighs()),
        observes(a.observes()) {
    rows = scratch.take<Row>(r.end - r.begin);
    weights = scores = scratch.take<T>((kTileKeys + kNear) * kStrip<S>);
    key = scratch.take<T>(kTileKeys * copied_stride<T>(a.head_dim));
    value = scratch.take<T>(kTileKeys * copied_stride<T>(a.value_dim));
    addends = scratch.take<T>(S::width * addends_stride);
    correction = scratch.take<T>(kStrip<S>);
    offset = scratch.take<T>(kStrip<S>);
    where = scratch.take<T>(kStrip<S>);
    patterns = scratch.take<unsigned char>(kTileKeys * kStrip<S>);
  }

  Strip<S> take_strip(Index s) {
    const Index first = s * kStrip<S>, count = smaller<Index>(kStrip<S>, range.end - range.begin - first);
    T* query = scratch.take<T>(a.head_dim * kStrip<S>);
    T* sums = scratch.take<T>(a.value_dim * kStrip<S>);
    T* leading = a.statistics[kTopBound] ? scratch.take<T>(a.bounding * kStrip<S>) : nullptr;
    return {rows + first, count, {}, {}, true, false, query, sums, leading, Numbers<T>::take(scratch, kStrip<S>)};
  }
};

template <class S>
inline void begin_strip(const Arguments& a, const Units<typename S::Element>& units, Index item, Strip<S>& strip) {
  strip.shared = shared_keys(strip.rows, strip.count);
  strip.standing = standing_of(strip.rows, strip.count);
  const char* rows[kStrip<S>];
  for (Index r = 0; r < strip.count; ++r) rows[r] = a.query.at(item, strip.rows[r].head, strip.rows[r].query);
  for (int v = 0; v < kStrip<S>; v += S::width)
    pack_rows<S>(a.query, rows + v, strip.count - v, a.head_dim, units.query, strip.query + v, kStrip<S>);
  init(strip.numbers);
  if (strip.leading) std::fill_n(strip.leading, a.bounding * kStrip<S>, -typename S::Element(__builtin_inf()));
}

template <class S>
inline View<S> view_tile(const Block<S>& b, const Strip<S>& strip, Keys tile) {
  View<S> view;
  view.keys = tile;
  view.whole = strip.shared.begin <= tile.begin && tile.end <= strip.shared.end;
  if (view.whole) return view;
  for (Index r = 0; r < strip.count; ++r)
    view.seen[r] = look(b.a, b.range.item, strip.rows[r], tile, b.patterns + r * kTileKeys);
  view.keys = seen_keys(view.seen, strip.count);
  view.whole = all_seen(view.seen, strip.count, view.keys);
  return view;
}

// The lanes' positions, counted from where the tile of some keys begins: so they are rounded alike, far away and
// whatever the first key in view.
template <class S>
inline Distances<S, kVectors<S>> lane_distances(Block<S>& b, const Strip<S>& strip, Keys keys) {
  using T = typename S::Element;
  Distances<S, kVectors<S>> distances;
  const Index place = keys.begin % kTileKeys, first = keys.begin - place;
  for (Index r = 0; r < kStrip<S>; ++r) b.offset[r] = r < strip.count ? T(strip.rows[r].position - first) : T(0);
  for (int v = 0; v < kVectors<S>; ++v) distances.offset[v] = S::load(b.offset + v * S::width);
  distances.step = S::set(1);
  distances.passed = S::set(T(place));
  return distances;
}

template <class S>
inline void finish_strip(Block<S>& b, const Strip<S>& strip, Keys keys) {
  using T = typename S::Element;
  typename S::Vector falls[kVectors<S>];
  Distances<S, kVectors<S>> distances;
  if (b.a.slopes) {
    distances = lane_distances<S>(b, strip, keys);
    for (Index r = 0; r < kStrip<S>; ++r)
      b.offset[r] = r < strip.count ? T(-b.a.slopes[strip.rows[r].head] * b.units.bias) : T(0);
    for (int v = 0; v < kVectors<S>; ++v) falls[v] = S::load(b.offset + v * S::width);
  }
  finish_scores<S, kVectors<S>>(b.scores, keys.end - keys.begin, b.units, b.a.slopes ? falls : nullptr, distances);
}

// Adds the rows' own biases and hides what they do not see.
template <class S>
inline void apply_rows(Block<S>& b, const Strip<S>& strip, const View<S>& view) {
  using T = typename S::Element;
  const Arguments& a = b.a;
  const Keys keys = view.keys;
  if (!a.rows_biased() && !view.patterned(strip.count)) {
    for (Index r = 0; r < strip.count; ++r)
      for_hidden_keys(view.seen[r], keys,
                      [&](Index j) { b.scores[(j - keys.begin) * kStrip<S> + r] = -T(__builtin_inf()); });
    return;
  }
  for (int v = 0; v < kStrip<S>; v += S::width) {
    for (int lane = 0; lane < S::width; ++lane) {
      const Index r = v + lane;
      T* addends = b.addends + lane * b.addends_stride;
      if (r < strip.count)
        fill_addends(a, b.range.item, strip.rows[r], view.of(r), keys, b.units.bias, addends);
      else
        std::fill(addends, addends + b.addends_stride, T(0));
    }
    add_to_lanes<S>(b.addends, b.addends_stride, keys.end - keys.begin, b.scores + v, kStrip<S>);
  }
}

// Scores of the strip's rows against the keys in view, and the largest of each lane.
template <class S>
inline void score_visible(Block<S>& b, const Strip<S>& strip, const View<S>& view, Tile<typename S::Element> key,
                          typename S::Vector* maximum) {
  using T = typename S::Element;
  const Arguments& a = b.a;
  const Keys keys = view.keys;
  const Index count = keys.end - keys.begin;
  const bool finished = finishes(a, b.units), by_row = a.rows_biased() || !view.whole;
  T* where = a.statistics[kArgmax] ? b.where : nullptr;
  score_strip<S>(key, count, a.head_dim, strip.query, b.scores, maximum, where, b.ahead);
  if (finished) finish_strip(b, strip, keys);
  if (by_row) apply_rows(b, strip, view);
  if (finished || by_row) largest<S, kVectors<S>>(b.scores, count, maximum, where);
}

// The key of each lane's largest score, where it is larger than all before.
template <class S>
inline void observe_largest(Block<S>& b, const Strip<S>& strip, Keys keys, const typename S::Vector* maximum) {
  using T = typename S::Element;
  const T* so_far = strip.numbers.row(kMaximum);
  T best[kStrip<S>];
  for (int v = 0; v < kVectors<S>; ++v) S::store(best + v * S::width, maximum[v]);
  for (Index r = 0; r < strip.count; ++r)
    if (so_far[r] < best[r])
      strip.numbers.count(kLargestKey, r) =
          keys.begin + first_with(best[r], b.scores + r, kStrip<S>, Index(b.where[r]));
}

// The largest scores of the strip's tiles: the last of so many bounds what the largest of all keys can be, from below.
template <class S>
inline void observe_leading(const Block<S>& b, const Strip<S>& strip, const typename S::Vector* maximum) {
  for (int v = 0; v < kVectors<S>; ++v) {
    typename S::Element* leading = strip.leading + v * S::width;
    insert_descending<S>(maximum[v], leading, b.a.bounding, kStrip<S>);
    S::store(strip.numbers.row(kBound) + v * S::width, S::load(leading + (b.a.bounding - 1) * kStrip<S>));
  }
}

// What is asked for of the scores and of what is visible.
template <class S>
inline void observe_scores(Block<S>& b, const Strip<S>& strip, const View<S>& view, const typename S::Vector* maximum) {
  const Keys keys = view.keys;
  const Index count = keys.end - keys.begin;
  if (b.a.statistics[kArgmax]) observe_largest(b, strip, keys, maximum);
  if (strip.leading) observe_leading(b, strip, maximum);
  if (b.a.statistics[kComputedKeys])
    for (Index r = 0; r < strip.count; ++r) strip.numbers.count(kComputed, r) += count;
  if (!strip.counted)
    for (Index r = 0; r < strip.count; ++r)
      update_visible(b.a, b.range.item, strip.numbers, r, strip.rows[r], view.of(r));
}

// One tile of the strip's scores becomes weights, measured from `maximum`, the tile's own; numbers and correction are
// brought to the new one.
template <class S, bool observed>
inline void weigh_strip(Block<S>& b, const Strip<S>& strip, Keys keys, const typename S::Vector* maximum) {
  using T = typename S::Element;
  Pass<S, kVectors<S>, observed> pass{
      b.scores, b.weights, keys.end - keys.begin, keys.begin % kTileKeys, {}, Exponent<S>(b.units.exponent), {}};
  if constexpr (observed) {
    pass.distances = lane_distances<S>(b, strip, keys);
    pass.sided = true;
    pass.before = strip.standing.begin - (keys.begin - pass.begin);
    pass.behind = strip.standing.end - (keys.begin - pass.begin);
  }
  for (int v = 0; v < kVectors<S>; ++v) {
    const Index r = v * S::width;
    const auto risen = S::max(S::load(strip.numbers.row(kMaximum) + r), maximum[v]);
    S::store(b.correction + r, rescale<S>(strip.numbers, r, risen, pass.exponent, b.observes));
    pass.maximum[v] = finite_maximum<S>(risen);
  }
  const auto sums = pass.sum_all();
  for (int v = 0; v < kVectors<S>; ++v) {
    const auto add = [&](int field, typename S::Vector more) {
      T* place = strip.numbers.row(field) + v * S::width;
      S::store(place, S::add(S::load(place), more));
    };
    add(kTotal, sums.total[v]);
    if constexpr (observed) {
      add(kScored, sums.scored[v]);
      add(kDistant, sums.distant[v]);
    }
  }
}

// Weights of single keys, where the tile has any that are asked for.
template <class S>
inline void observe_weights(const Block<S>& b, const Strip<S>& strip, Keys keys) {
  const bool near = keys.begin <= strip.standing.end + 1 && strip.standing.begin <= keys.end;
  if (!b.a.singles_out() || (!near && b.a.first_keys <= keys.begin)) return;
  for (Index r = 0; r < strip.count; ++r)
    update_single_keys<typename S::Element>(strip.numbers, r, strip.rows[r], b.a.first_keys,
                                            {b.weights + r, keys, kStrip<S>});
}

template <class S>
inline void attend_tile(Block<S>& b, Strip<S>& strip, const View<S>& view, Tile<typename S::Element> key,
                        Tile<typename S::Element> value) {
  typename S::Vector maximum[kVectors<S>];
  b.scores = b.kept ? b.kept + view.keys.begin * kStrip<S> : b.weights;
  score_visible<S>(b, strip, view, key, maximum);
  observe_scores(b, strip, view, maximum);
  b.weighs ? weigh_strip<S, true>(b, strip, view.keys, maximum) : weigh_strip<S, false>(b, strip, view.keys, maximum);
  observe_weights(b, strip, view.keys);
  const auto* correction = strip.begun ? b.correction : nullptr;
  strip.begun = true;
  if (!b.careful) {
    add_weighted_values<S>(value, view.keys, b.a.value_dim, b.weights, correction, strip.sums, b.ahead);
    return;
  }
  for (Index r = 0; r < strip.count; ++r)
    mark_hidden(b.a, b.range.item, strip.rows[r], view.of(r), view.keys, b.weights + r, kStrip<S>);
  add_visible_values<S>(value, view.keys, b.a.value_dim, b.weights, correction, strip.sums);
}

// Sums over the totals of their lanes. On the way their squares are added up, and infinities and NaNs are noticed.
template <class S>
struct Quotients {
  using T = typename S::Element;
  using V = typename S::Vector;
  V total, opposite, reciprocal;
  bool infinities;  // whether an infinity may be among the sums; else it may come out as NaN
  V flaws = S::set(0), squares = S::set(0);

  Quotients(V x, bool with_infinities)
      : total(x), opposite(S::sub(S::set(0), x)), reciprocal(S::div(S::set(1), x)), infinities(with_infinities) {}

  V operator()(V sum) {
    const V quotient = divide(sum);
    flaws = S::fma(quotient, S::set(0), flaws);
    squares = S::fma(quotient, quotient, squares);
    return quotient;
  }

  bool flawed() const { return S::sum(flaws) != 0; }

 private:
  // With a fused multiply-add, the product with the reciprocal and what is missing from that: the quotient rounded once
  // or nearly so.
  V divide(V sum) const {
    if constexpr (!S::fused) return S::div(sum, total);
    const V quotient = S::mul(sum, reciprocal);
    const V corrected = S::fma(S::fma(quotient, opposite, sum), reciprocal, quotient);
    if (!infinities) return corrected;
    return S::select(S::less(S::abs(corrected), S::set(T(__builtin_inf()))), corrected, quotient);
  }
};

// The lengths of rows of outputs from their squares. Those too large or too small for the working precision are added
// up again: `output(r, d)` is a number of a row.
template <class T, class Output>
inline void lengths_of(const T* squares, Index count, Index value_dim, double* lengths, Output output) {
  for (Index r = 0; r < count; ++r) lengths[r] = std::sqrt(double(squares[r]));
  for (Index r = 0; r < count; ++r) {
    if (lengths[r] > 1e-15 && lengths[r] < 1e15) continue;
    double sum = 0;
    for (Index d = 0; d < value_dim; ++d) sum += output(r, d) * output(r, d);
    lengths[r] = std::sqrt(sum);
  }
}

// A strip's outputs and statistics. Tells whether any output came out as NaN or infinite.
template <class S>
inline bool end_strip(const Block<S>& b, const Strip<S>& strip) {
  using T = typename S::Element;
  const Arguments& a = b.a;
  double whole[kStrip<S>];
  T totals[kStrip<S>], squares[kStrip<S>];
  char* outputs[kStrip<S>];
  whole_totals(a, b.units, strip.rows, strip.numbers, strip.count, whole);
  for (Index r = 0; r < kStrip<S>; ++r) totals[r] = r < strip.count ? T(whole[r]) : T(1);
  for (Index r = 0; r < strip.count; ++r) outputs[r] = place_of_output(a, b.range.item, strip.rows[r]);
  bool flawed = false;
  for (int v = 0; v < strip.count; v += S::width) {
    Quotients<S> quotients(S::load(totals + v), b.careful);
    unpack_rows<S>(strip.sums + v, kStrip<S>, a.output_layout, outputs + v, strip.count - v, a.value_dim, quotients);
    flawed |= quotients.flawed();
    S::store(squares + v, quotients.squares);
  }
  if (!a.reports()) return flawed;
  double lengths[kStrip<S>];
  if (a.statistics[kOutputNorm])
    lengths_of(squares, strip.count, a.value_dim, lengths,
               [&](Index r, Index d) { return double(strip.sums[d * kStrip<S> + r]) / whole[r]; });
  write_statistics(a, b.units, b.range.item, strip.rows, strip.numbers, strip.count, lengths);
  return flawed;
}

// While the first strips of a tile are at work, memory brings what comes next: the biases of the others, the tile's
// values, unless they were copied, the keys of the next tile, up to key `last`, and its kept scores' places; beside the
// last tile of a range the places of its outputs, and what the thread will probably be given next.
template <class S>
inline void prefetch_next(Block<S>& b, Keys tile, Index last) {
  const Arguments& a = b.a;
  const Keys next{tile.end, smaller(tile.end + kTileKeys, last)};
  const bool in_place =
      usable_in_place<typename S::Element>(a.value, a.value.at(b.range.item, b.range.kv_head, 0), true);
  b.ahead = {};
  if (a.bias.data) b.ahead.add(biases_ahead(a, b.range, tile));
  b.ahead.add(rows_ahead(a.value, b.range, in_place ? tile : next, a.value_dim));
  b.ahead.add(rows_ahead(a.key, b.range, next, a.head_dim));
  if (b.kept) {
    constexpr Index width = kStrip<S> * sizeof(*b.kept);
    b.ahead.add({b.kept + next.begin * kStrip<S>, width, next.end - next.begin, width});
  }
  if (!next.empty()) return;
  b.ahead.add(queries_ahead(a, a.output_layout, b.range, a.value_dim));
  if (b.next.begin >= b.next.end) return;
  b.ahead.add(queries_ahead(a, a.query, b.next, a.head_dim));
  b.ahead.add(rows_ahead(a.key, b.next, first_tile(a, b.next), a.head_dim));
}

template <class S>
inline void attend_tiles(Block<S>& b, Strip<S>* strips, Keys within, Index last) {
  const Arguments& a = b.a;
  for (Index begin = within.begin / kTileKeys * kTileKeys; begin < within.end; begin += kTileKeys) {
    if (a.stop()) return;
    const Keys tile{larger(begin, within.begin), smaller(begin + kTileKeys, within.end)};
    const Index count = tile.end - tile.begin;
    const auto key =
        load_tile<S>(a.key, a.key.at(b.range.item, b.range.kv_head, tile.begin), count, a.head_dim, true, b.key);
    const auto value =
        load_tile<S>(a.value, a.value.at(b.range.item, b.range.kv_head, tile.begin), count, a.value_dim, true, b.value);
    prefetch_next(b, tile, last);
    for (Index s = 0; s < b.strips; ++s) {
      const View<S> view = view_tile(b, strips[s], tile);
      if (view.keys.empty()) continue;
      const Index skipped = view.keys.begin - tile.begin;
      attend_tile<S>(b, strips[s], view, {key.data + skipped * key.stride, key.stride},
                     {value.data + skipped * value.stride, value.stride});
    }
  }
}

constexpr Index kMaxStrips = 32;

// One pass of a range of rows over the keys among `keys` that they see. Each strip ends with `end(block, strip)`; tells
// whether any of these told of a flaw. The scores of a single strip may be `kept`.
template <class S, class End>
inline bool attend_rows(const Arguments& a, const RowRange& range, const RowRange& next, Keys keys, char* buffer,
                        bool careful, End end, typename S::Element* kept = nullptr) {
  Block<S> b(a, range, buffer);
  b.next = next;
  b.kept = kept;
  b.careful = careful;
  describe_rows(a, range, b.rows);
  Strip<S> strips[kMaxStrips];
  for (Index s = 0; s < b.strips; ++s) begin_strip<S>(a, b.units, range.item, strips[s] = b.take_strip(s));
  const Keys visible = visible_keys(b.rows, range.end - range.begin);
  if (a.counts_visible())
    for (Index s = 0; s < b.strips; ++s)
      for (Index r = 0; r < strips[s].count; ++r)
        strips[s].counted &= count_once(a, strips[s].numbers, r, strips[s].rows[r], keys);
  attend_tiles<S>(b, strips, common(keys, visible), visible.end);  // behind the chunk comes the next one
  if (a.stop()) return false;
  bool flawed = false;
  for (Index s = 0; s < b.strips; ++s) {
    if (!strips[s].begun) std::memset(strips[s].sums, 0, a.value_dim * kStrip<S> * sizeof(*strips[s].sums));
    flawed |= end(b, strips[s]);
  }
  return flawed;
}

// Runs `pass(careful)`. A NaN among the results, of which it tells, was either seen by its row, or is a hidden value's,
// as 0 · NaN: then the careful product, which reads no hidden value, tells.
template <class Pass>
inline void optimistically(Pass pass) {
  if (pass(false)) pass(true);
}

// Calls `use(lanes, rows)` for the rows of a range that fill strips, and for what is left over, in a strip of half the
// width where that is enough.
template <class S, class Use>
inline void by_strips(const RowRange& range, Use use) {
  Index middle = range.end;
  if constexpr (S::width >= 4) {
    const Index over = (range.end - range.begin) % kStrip<S>;
    if (over <= S::width) middle -= over;
    if (middle < range.end) use(Half<S>(), RowRange{range.item, range.kv_head, middle, range.end});
  }
  if (range.begin < middle) use(S(), RowRange{range.item, range.kv_head, range.begin, middle});
}

// Computes the outputs and statistics of a range of rows. `next` is the range that will probably follow, or empty.
template <class S>
inline void attend_block(const Arguments& a, const RowRange& range, const RowRange& next, char* buffer) {
  by_strips<S>(range, [&](auto lanes, const RowRange& rows) {
    optimistically([&](bool careful) {
      return attend_rows<decltype(lanes)>(a, rows, next, {0, a.kv_len}, buffer, careful,
                                          [](const auto& b, const auto& strip) { return end_strip(b, strip); });
    });
  });
}

// Rows in one block: as many strips as leave room in the second cache for a tile of keys and values. Twice as many
// where every block has to widen them.
template <class S>
inline Index block_rows(const Arguments& a) {
  const Index room = size_of(a.key.type) == 2 ? 256 << 10 : 128 << 10;
  const Index strip = (a.head_dim + a.value_dim) * kStrip<S> * Index(sizeof(typename S::Element));
  const Index strips = larger<Index>(1, smaller<Index>(kMaxStrips, room / larger<Index>(strip, 1)));
  return strips * kStrip<S>;
}

template <class S>
inline Index block_scratch(const Arguments& a, Index rows) {
  Block<S> b(a, {0, 0, 0, rows}, nullptr);
  for (Index s = 0; s < b.strips; ++s) b.take_strip(s);
  return b.scratch.used();
}

}  // namespace
}  // namespace headwise
