// Products of the heads' weights with one another, summed over queries and keys: how alike two heads look.
//
// Heads go by fours: 16 sums of a vector each stay in registers while a few KB of eight heads' weights pass.
#pragma once

#include "products.hpp"

namespace headwise {
namespace {

template <class S>
struct Products {
  using T = typename S::Element;
  using V = typename S::Vector;
  static constexpr Index kTogether = 4;
  static constexpr Index kPart = 32;  // vectors of each head that stay in the first cache

  Index heads = 0;
  T* lanes = nullptr;      // [pairs of fours][4][4] vectors
  double* sums = nullptr;  // [heads][heads], upper triangle

  static Products take(Scratch& scratch, Index heads) {
    const Index fours = (heads + kTogether - 1) / kTogether, pairs = fours * (fours + 1) / 2;
    Products p{heads, scratch.take<T>(pairs * kTogether * kTogether * S::width), scratch.take<double>(heads * heads)};
    if (!scratch.counts())
      for (Index k = 0; k < heads * heads; ++k) p.sums[k] = 0;
    return p;
  }

  // Adds what `count` vectors of each head give; a head's lie `size` numbers behind those of the one before.
  void add(const T* weights, Index size, Index count) const {
    for (Index first = 0; first < count; first += kPart)
      each_pair([&](Index i, Index j, T* place) {
        add_pair(weights, size, i, j, first, smaller(count, first + kPart), place);
      });
    if (count == 0) return;
    each_pair([&](Index i, Index j, const T* place) {
      for (Index x = i; x < smaller(heads, i + kTogether); ++x)
        for (Index y = larger(x, j); y < smaller(heads, j + kTogether); ++y)
          sums[x * heads + y] += double(S::sum(S::load(place + ((x - i) * kTogether + y - j) * S::width)));
    });
  }

  void leave(double* products) const {
    for (Index k = 0; k < heads * heads; ++k) products[k] += sums[k];
  }

 private:
  template <class Use>
  void each_pair(Use use) const {
    T* place = lanes;
    for (Index i = 0; i < heads; i += kTogether)
      for (Index j = i; j < heads; j += kTogether, place += kTogether * kTogether * S::width) use(i, j, place);
  }

  // Heads beyond the last are that one again.
  void add_pair(const T* weights, Index size, Index i, Index j, Index first, Index last, T* place) const {
    const T *one[kTogether], *other[kTogether];
    for (Index k = 0; k < kTogether; ++k) {
      one[k] = weights + smaller(i + k, heads - 1) * size;
      other[k] = weights + smaller(j + k, heads - 1) * size;
    }
    V total[kTogether][kTogether];
    for (Index x = 0; x < kTogether; ++x)
      for (Index y = 0; y < kTogether; ++y)
        total[x][y] = first ? S::load(place + (x * kTogether + y) * S::width) : S::set(0);
    for (Index k = first * S::width; k < last * S::width; k += S::width) {
      V right[kTogether];
      for (Index y = 0; y < kTogether; ++y) right[y] = S::load(other[y] + k);
#pragma GCC unroll 4
      for (Index x = 0; x < kTogether; ++x) {
        const V left = S::load(one[x] + k);
#pragma GCC unroll 4
        for (Index y = 0; y < kTogether; ++y) total[x][y] = S::fma(left, right[y], total[x][y]);
      }
    }
    for (Index x = 0; x < kTogether; ++x)
      for (Index y = 0; y < kTogether; ++y) S::store(place + (x * kTogether + y) * S::width, total[x][y]);
  }
};

}  // namespace
}  // namespace headwise
