// The two matrix products for few rows: the lanes run along dimensions, which lie contiguous, and keys and values
// stream by once for all rows.
//
//   scores   rows × keys sums at a time, one vector each, whose lanes are added up together      "rd,jd->rj"
//   sums     rows × vectors of dimensions at a time, over a short run of keys                    "rj,jd->rd"
//
// All rows pass over a run of keys while it is in the first cache, and memory is asked for the next run meanwhile.
// Numbers of 16 bits are widened in registers. Rows are padded to whole vectors with zeros; the order of additions of a
// row's score or sum depends neither on the other rows nor on where a tile ends.
#pragma once

#include "products.hpp"

namespace headwise {
namespace {

// Rows of numbers that lie one after another, each in whole vectors.
template <class T>
struct Rows {
  T* data;
  Index count, stride;
  T* row(Index r) const { return data + r * stride; }
};

template <class S>
inline Index padded(Index width) {
  return (width + S::width - 1) / S::width * S::width;
}

// The sum of each of `width` vectors, in the order of S::sum: the upper half of the lanes to the lower, until one is
// left.
template <class S>
[[gnu::always_inline]] inline typename S::Vector sum_each(typename S::Vector (&vectors)[S::width]) {
  if constexpr (requires { S::sum_each(vectors); }) {
    return S::sum_each(vectors);
  } else if constexpr (S::width > 1) {
    constexpr auto lanes = std::make_integer_sequence<int, S::width>();
    for (int half = S::width / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k)
        vectors[k] = S::add(interleave<S, 0>(vectors[k], vectors[k + half], lanes),
                            interleave<S, 1>(vectors[k], vectors[k + half], lanes));
  }
  return vectors[0];
}

// Keys that stay in the first cache while all rows pass, and whose weighted values are added up in one chain.
constexpr Index kRun = 32;

// Rows as they are computed: three are dearer than four, so that a row of zeros joins them.
inline Index computed_rows(Index rows) { return rows % 4 == 3 ? rows + 1 : rows; }

// Rows by fours, twos and ones, or all alone: calls `use(rows, first)` for each group.
template <int most, class Use>
inline void by_groups(Index rows, Use use) {
  Index r = 0;
  if constexpr (most == 4) {
    for (; r + 4 <= rows; r += 4) use(std::integral_constant<int, 4>(), r);
    for (; r + 2 <= rows; r += 2) use(std::integral_constant<int, 2>(), r);
  }
  for (; r < rows; ++r) use(std::integral_constant<int, 1>(), r);
}

// What memory is asked for while the groups of rows pass over a run: each asks for its share, so that requests come
// evenly, and in the order of addresses.
struct Ahead {
  Prefetcher memory;
  Index share;  // bytes for each vector that is read

  template <class S, class Source>
  static Ahead of(const Stretch& next, Index rows) {
    const Index groups = rows / 4 + rows % 4 / 2 + rows % 2;
    Ahead ahead{{}, S::width * Index(sizeof(Source)) / groups};
    ahead.memory.add(next);
    return ahead;
  }
};

// What follows a run of keys: the next run of the tile, or what comes after the tile.
template <class Source>
inline Stretch next_run(Tile<Source> tile, Index done, Index keys, Index width, const Stretch& after) {
  if (done >= keys) return after;
  const Index size = sizeof(Source);
  return {tile.data + done * tile.stride, tile.stride * size, smaller(kRun, keys - done), width * size};
}

// Sums held in registers at a time: 16 where there are 32 registers, else 8, and whole squares of lanes.
template <class S>
constexpr int kRowSums = S::panel_height >= 12 ? 16 : 8;

// Dimensions in one chain: each lane has a chain of its own, and lanes are added up at the end.
template <class S>
constexpr Index kLanesChain = kChain / 4 * S::width;

// scores[r, j] = Σ_d key[j, d] · query[r, d] for so many rows and keys, or that added to what is there.
template <class S, int rows, int keys, bool added, class Source>
[[gnu::always_inline]] inline void score_square(Tile<Source> key, Index dims, Rows<typename S::Element> query,
                                                Rows<typename S::Element> scores, Ahead& ahead) {
  using T = typename S::Element;
  using V = typename S::Vector;
  V sums[rows * keys];
#pragma GCC unroll 16
  for (int k = 0; k < rows * keys; ++k) sums[k] = S::set(0);
  const auto step = [&](Index d, auto load) {
    V lanes[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) lanes[r] = S::load(query.row(r) + d);
    ahead.memory.advance(keys * ahead.share);
#pragma GCC unroll 16
    for (int j = 0; j < keys; ++j) {
      const V numbers = load(key.data + j * key.stride + d);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sums[r * keys + j] = S::fma(numbers, lanes[r], sums[r * keys + j]);
    }
  };
  Index d = 0;
  for (; d + S::width <= dims; d += S::width) step(d, [](const Source* p) { return load_wide<S>(p); });
  if (d < dims) step(d, [&](const Source* p) { return load_some<S>(p, dims - d); });
  T total[rows * keys];
  if constexpr (rows * keys % S::width == 0) {
    for (int k = 0; k < rows * keys; k += S::width) {
      V some[S::width];
#pragma GCC unroll 16
      for (int lane = 0; lane < S::width; ++lane) some[lane] = sums[k + lane];
      S::store(total + k, sum_each<S>(some));
    }
  } else {
    for (int k = 0; k < rows * keys; ++k) total[k] = S::sum(sums[k]);
  }
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < keys; ++j) {
      T& score = scores.row(r)[j];
      score = added ? score + total[r * keys + j] : total[r * keys + j];
    }
}

template <class S, int rows, bool added, class Source>
inline void score_some_rows(Tile<Source> key, Index keys, Index dims, Rows<typename S::Element> query,
                            Rows<typename S::Element> scores, Ahead& ahead) {
  constexpr int many = kRowSums<S> / rows;
  Index j = 0;
  for (; j + many <= keys; j += many)
    score_square<S, rows, many, added>(Tile<Source>{key.data + j * key.stride, key.stride}, dims, query,
                                       {scores.data + j, rows, scores.stride}, ahead);
  for (; j < keys; ++j)
    score_square<S, rows, 1, added>(Tile<Source>{key.data + j * key.stride, key.stride}, dims, query,
                                    {scores.data + j, rows, scores.stride}, ahead);
}

template <class S, bool added, class Source>
inline void score_chain(Tile<Source> key, Index keys, Index dims, Rows<typename S::Element> query,
                        Rows<typename S::Element> scores, const Stretch& after) {
  for (Index j = 0; j < keys; j += kRun) {
    auto ahead = Ahead::of<S, Source>(next_run(key, j + kRun, keys, dims, after), query.count);
    by_groups<4>(query.count, [&](auto rows, Index r) {
      score_some_rows<S, rows, added>(Tile<Source>{key.data + j * key.stride, key.stride}, smaller(kRun, keys - j),
                                      dims, {query.row(r), rows, query.stride},
                                      {scores.row(r) + j, rows, scores.stride}, ahead);
    });
  }
}

template <class S, class Source>
[[gnu::noinline]] void add_row_chains(Tile<Source> key, Index keys, Index head_dim, Rows<typename S::Element> query,
                                      Rows<typename S::Element> scores) {
  for (Index d = kLanesChain<S>; d < head_dim; d += kLanesChain<S>)
    score_chain<S, true>(Tile<Source>{key.data + d, key.stride}, keys, smaller(head_dim - d, kLanesChain<S>),
                         {query.data + d, query.count, query.stride}, scores, {});
}

// scores[r, j] = Σ_d key[j, d] · query[r, d]                                                       "rd,jd->rj"
template <class S, class Source>
inline void score_rows(Tile<Source> key, Index keys, Index head_dim, Rows<typename S::Element> query,
                       Rows<typename S::Element> scores, const Stretch& after) {
  score_chain<S, false>(key, keys, smaller(head_dim, kLanesChain<S>), query, scores, after);
  if (head_dim > kLanesChain<S>) add_row_chains<S>(key, keys, head_dim, query, scores);
}

// sums[r, d] = sums[r, d] · correction[r] + Σ_j weights[r, j] · value[j, d] for so many rows and vectors of
// dimensions; the last one may be cut. A careful one, of one row, leaves out every weight marked as hidden (negative):
// see add_visible_values.
template <class S, int rows, int vectors, bool careful, class Source>
[[gnu::always_inline]] inline void add_square(Tile<Source> value, Index keys, Index dims,
                                              Rows<const typename S::Element> weights,
                                              const typename S::Element* correction, Rows<typename S::Element> sums,
                                              Ahead& ahead) {
  using V = typename S::Vector;
  V totals[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) totals[r][v] = S::set(0);
  const auto pass = [&](auto load) {
    for (Index j = 0; j < keys; ++j) {
      if (careful && weights.data[j] < 0) continue;
      ahead.memory.advance(vectors * ahead.share);
      V lanes[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) lanes[v] = load(value.data + j * value.stride + v * S::width);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const V weight = S::set(weights.row(r)[j]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) totals[r][v] = S::fma(weight, lanes[v], totals[r][v]);
      }
    }
  };
  if (vectors > 1 || dims >= S::width) {
    pass([](const Source* p) { return load_wide<S>(p); });
  } else {
    pass([&](const Source* p) { return load_some<S>(p, dims); });
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      typename S::Element* place = sums.row(r) + v * S::width;
      S::store(place, S::fma(S::load(place), S::set(correction[r]), totals[r][v]));
    }
}

template <class S, int rows, bool careful, class Source>
inline void add_some_rows(Tile<Source> value, Index keys, Index value_dim, Rows<const typename S::Element> weights,
                          const typename S::Element* correction, Rows<typename S::Element> sums, Ahead& ahead) {
  Index d = 0;
  const auto slabs = [&]<int vectors>(std::integral_constant<int, vectors>) {
    for (; d + vectors * S::width <= value_dim || (vectors == 1 && d < value_dim); d += vectors * S::width)
      add_square<S, rows, vectors, careful>(Tile<Source>{value.data + d, value.stride}, keys, value_dim - d, weights,
                                            correction, {sums.data + d, rows, sums.stride}, ahead);
  };
  if constexpr (rows < 4) slabs(std::integral_constant<int, kRowSums<S> / 2>());
  slabs(std::integral_constant<int, kRowSums<S> / 4>());
  slabs(std::integral_constant<int, 1>());
}

// sums[r, d] = sums[r, d] · correction[r] + Σ_j weights[r, j] · value[j, d]                         "rj,jd->rd"
// `correction` becomes 1.
template <class S, bool careful, class Source>
inline void add_weighted_rows(Tile<Source> value, Index keys, Index value_dim, Rows<const typename S::Element> weights,
                              typename S::Element* correction, Rows<typename S::Element> sums, const Stretch& after) {
  for (Index j = 0; j < keys; j += kRun) {
    auto ahead = Ahead::of<S, Source>(next_run(value, j + kRun, keys, value_dim, after), sums.count);
    by_groups<careful ? 1 : 4>(sums.count, [&](auto rows, Index r) {
      add_some_rows<S, rows, careful>(Tile<Source>{value.data + j * value.stride, value.stride},
                                      smaller(kRun, keys - j), value_dim, {weights.row(r) + j, rows, weights.stride},
                                      correction + r, {sums.row(r), rows, sums.stride}, ahead);
    });
    for (Index r = 0; r < sums.count; ++r) correction[r] = 1;
  }
}

}  // namespace
}  // namespace headwise
