// What the second pass collects of a problem, against sums of the answer's weights.
#pragma once

#include "problem.hpp"

namespace headwise::testing {

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
}

// Everything that can be asked for, in buffers of exactly the size that the contract says.
template <class T>
struct Collected {
  static constexpr Index kBand = 48, kBlock = 24, kTop = 3;
  std::vector<T> received, recent, offsets, sums, maxima, top_weights, stripe;
  std::vector<Index> recent_from, top_keys, keys, first, last, viewers, pairs;
  std::vector<double> products;
  Stripe wanted{};
  Collection c;
  Index rows, columns;

  explicit Collected(const Arguments& a) {
    const auto size = [](Index n) { return std::size_t(n); };
    const Index heads = a.num_heads;
    c.band_queries = kBand;
    c.bands = (a.query_len + kBand - 1) / kBand;
    c.block_queries = kBlock;
    c.block_keys = 7;
    rows = (a.query_len + kBlock - 1) / kBlock;
    columns = (a.kv_len + 6) / 7;
    for (auto* sums_of_keys : {&received, &recent}) sums_of_keys->resize(size(heads * c.bands * a.kv_len));
    offsets.resize(size(heads * c.bands * c.offsets_size(a)));
    sums.resize(size(heads * rows * columns));
    maxima.resize(sums.size());
    products.resize(size(c.bands * heads * heads));
    top_weights.resize(size(heads * a.query_len * kTop));
    top_keys.assign(top_weights.size(), -1);
    recent_from.assign(size(heads), a.query_len / 2);
    stripe.resize(size(heads * a.query_len));
    viewers.resize(size(heads * a.kv_len));
    pairs.resize(size(heads * (a.query_len + a.kv_len - 1)));
    for (Index j = 0; j < a.kv_len; ++j) keys.push_back(j);  // every third key, beginning with the query's remainder
    std::stable_sort(keys.begin(), keys.end(), [](Index x, Index y) { return x % 3 < y % 3; });
    for (Index i = 0; i < a.query_len; ++i) {
      const auto remainder = [&](Index k) { return keys[size(k)] % 3; };
      Index begin = 0;
      while (begin < a.kv_len && remainder(begin) < i % 3) ++begin;
      first.push_back(begin);
      while (begin < a.kv_len && remainder(begin) == i % 3) ++begin;
      last.push_back(begin);
    }
    c.received = received.data();
    c.recent = recent.data();
    c.recent_from = recent_from.data();
    c.offsets = offsets.data();
    c.block_sums = sums.data();
    c.block_maxima = maxima.data();
    c.products = products.data();
    c.top_weights = top_weights.data();
    c.top_keys = top_keys.data();
    c.top = kTop;
    wanted = {keys.data(), first.data(), last.data(), stripe.data()};
    c.stripes = &wanted;
    c.stripe_count = 1;
  }
  Collected(const Collected&) = delete;

  bool same_bits_as(const Collected& other) const {
    for (const auto part : {&Collected::received, &Collected::recent, &Collected::offsets, &Collected::sums,
                            &Collected::maxima, &Collected::top_weights, &Collected::stripe})
      if (!same_bits(this->*part, other.*part)) return false;
    return same_bits(products, other.products) && top_keys == other.top_keys;
  }
};

// Sums of the answer's weights beside what was collected.
template <class T, class Check>
struct Comparison {
  const Problem<T>& p;
  const Collected<T>& got;
  Check check;
  const Arguments& a;
  const Collection& c;
  std::vector<std::vector<double>> weights;

  Comparison(const Problem<T>& problem, const Collected<T>& collected, Check each)
      : p(problem), got(collected), check(each), a(p.a), c(got.c) {
    for (Index h = 0; h < a.num_heads; ++h)
      for (Index i = 0; i < a.query_len; ++i) weights.push_back(Answer(p, h, i).weights);
  }

  void run() const {
    for (Index h = 0; h < a.num_heads; ++h) {
      keys_of(h);
      offsets_of(h);
      blocks_of(h);
      rows_of(h);
      products_of(h);
    }
  }

 private:
  template <class A>
  static double at(const std::vector<A>& numbers, Index k) {
    return double(numbers[std::size_t(k)]);
  }
  double weight(Index h, Index i, Index j) const { return at(weights[std::size_t(h * a.query_len + i)], j); }

  double banded(const std::vector<T>& numbers, Index h, Index j) const {
    double sum = 0;
    for (Index band = 0; band < c.bands; ++band) sum += at(numbers, (h * c.bands + band) * a.kv_len + j);
    return sum;
  }

  void keys_of(Index h) const {
    for (Index j = 0; j < a.kv_len; ++j) {
      double all = 0, late = 0, viewers = 0;
      for (Index i = 0; i < a.query_len; ++i) {
        all += weight(h, i, j);
        if (i >= a.query_len / 2) late += weight(h, i, j);
        viewers += p.visible(i, j);
      }
      check("received", banded(got.received, h, j), all);
      check("received of the last queries", banded(got.recent, h, j), late);
      check("viewers", at(got.viewers, h * a.kv_len + j), viewers);
    }
  }

  void offsets_of(Index h) const {
    for (Index d = 0; d < a.query_len + a.kv_len - 1; ++d) {
      double want = 0, sum = 0, pairs = 0;
      for (Index i = 0; i < a.query_len; ++i) {
        const Index j = i - d + a.kv_len - 1;
        if (0 <= j && j < a.kv_len) want += weight(h, i, j), pairs += p.visible(i, j);
      }
      for (Index band = 0; band < c.bands; ++band) {
        const Index place = d - band * c.band_queries + kOffsetMargin;
        if (0 <= place && place < c.offsets_size(a))
          sum += at(got.offsets, (h * c.bands + band) * c.offsets_size(a) + place);
      }
      check("offset", sum, want);
      check("pairs", at(got.pairs, h * (a.query_len + a.kv_len - 1) + d), pairs);
    }
  }

  void blocks_of(Index h) const {
    for (Index row = 0; row < got.rows; ++row)
      for (Index column = 0; column < got.columns; ++column) {
        double sum = 0, largest = 0;
        for (Index i = row * c.block_queries; i < std::min(a.query_len, (row + 1) * c.block_queries); ++i)
          for (Index j = column * c.block_keys; j < std::min(a.kv_len, (column + 1) * c.block_keys); ++j) {
            sum += weight(h, i, j);
            largest = std::fmax(largest, weight(h, i, j));
          }
        const Index place = (h * got.rows + row) * got.columns + column;
        check("sum of a block", at(got.sums, place), sum);
        check("largest of a block", at(got.maxima, place), largest);
      }
  }

  void rows_of(Index h) const {
    for (Index i = 0; i < a.query_len; ++i) {
      const Index row = h * a.query_len + i;
      std::vector<double> sorted = weights[std::size_t(row)];
      std::sort(sorted.rbegin(), sorted.rend());
      for (Index k = 0; k < c.top; ++k) {
        const Index key = got.top_keys[std::size_t(row * c.top + k)];
        const double top = at(got.top_weights, row * c.top + k);
        check("largest weights", top, k < a.kv_len ? at(sorted, k) : 0);
        check("their keys", key < 0 ? 0 : weight(h, i, key), top);
      }
      double on_stripe = 0;
      for (Index j = i % 3; j < a.kv_len; j += 3) on_stripe += weight(h, i, j);
      check("stripe", at(got.stripe, row), on_stripe);
    }
  }

  void products_of(Index h) const {
    for (Index other = h; other < a.num_heads; ++other) {
      double sum = 0, product = 0;
      for (Index band = 0; band < c.bands; ++band)
        sum += at(got.products, (band * a.num_heads + h) * a.num_heads + other);
      for (Index i = 0; i < a.query_len; ++i)
        for (Index j = 0; j < a.kv_len; ++j) product += weight(h, i, j) * weight(other, i, j);
      check("product of heads", sum, product);
    }
  }
};

// Calls `check(what, got, want)` for every number that was collected.
template <class T, class Check>
void compare_collected(const Problem<T>& p, const Collected<T>& got, Check check) {
  Comparison<T, Check>(p, got, check).run();
}

}  // namespace headwise::testing
