// Small attention problems with every freedom a kernel must cope with, and the answer in plain double precision.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels.hpp"

namespace headwise::testing {

struct Shape {
  Index heads, kv_heads, query_len, kv_len, head_dim, value_dim;
  Index right = kUnbounded, offset = 0;
  bool masked = false, biased = false;
  Index gap = 0;            // unused elements between rows of key and value
  bool misaligned = false;  // all operands one byte off
};

// An operand in a buffer of its own, so that reading past it is seen by a sanitizer.
template <class T>
struct Operand {
  std::vector<char> bytes;
  Strided layout;
  Index heads, rows, columns;

  Operand(Index h, Index r, Index c, Index gap, bool misaligned) : heads(h), rows(r), columns(c) {
    static const Index zero = 0;
    const Index row = (c + gap) * Index(sizeof(T)), shift = misaligned ? 1 : 0;
    bytes.resize(std::size_t(h * r * row + shift));
    layout.data = bytes.data() + shift;
    layout.outer = &zero;
    layout.head = r * row;
    layout.row = row;
    layout.column = sizeof(T);
    layout.type = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;
  }
  char* place(Index h, Index r, Index c) const { return const_cast<char*>(layout.at(0, h, r)) + c * layout.column; }
  T get(Index h, Index r, Index c) const {
    T x;
    std::memcpy(&x, place(h, r, c), sizeof x);
    return x;
  }
  void set(Index h, Index r, Index c, T x) const { std::memcpy(place(h, r, c), &x, sizeof x); }
};

template <class T>
struct Problem {
  Shape shape;
  Operand<T> query, key, value, output, bias;
  std::vector<unsigned char> mask;
  std::vector<T> numbers[kNumStatistics];
  std::vector<Index> counts[kNumStatistics];
  Arguments a;

  explicit Problem(const Shape& s, unsigned seed = 1)
      : shape(s),
        query(s.heads, s.query_len, s.head_dim, 0, s.misaligned),
        key(s.kv_heads, s.kv_len, s.head_dim, s.gap, s.misaligned),
        value(s.kv_heads, s.kv_len, s.value_dim, s.gap, s.misaligned),
        output(s.heads, s.query_len, s.value_dim, 0, s.misaligned),
        bias(1, s.query_len, s.kv_len, 0, s.misaligned) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (const Operand<T>* o : {&query, &key, &value, &bias})
      for (Index h = 0; h < o->heads; ++h)
        for (Index r = 0; r < o->rows; ++r)
          for (Index c = 0; c < o->columns; ++c) o->set(h, r, c, T(normal(random)));
    for (Index k = 0; k < s.query_len * s.kv_len; ++k) mask.push_back(random() % 3 != 0);
    set_arguments();
  }
  Problem(const Problem&) = delete;

  bool visible(Index i, Index j) const {
    const bool band = shape.right == kUnbounded || j <= i + shape.offset + shape.right;
    return band && (!shape.masked || mask[std::size_t(i * shape.kv_len + j)]);
  }

  double score(Index h, Index i, Index j) const {
    double sum = 0;
    const Index kv_head = h / (shape.heads / shape.kv_heads);
    for (Index d = 0; d < shape.head_dim; ++d) sum += double(query.get(h, i, d)) * double(key.get(kv_head, j, d));
    return sum * a.scale + (shape.biased ? double(bias.get(0, i, j)) : 0.0);
  }

 private:
  void set_arguments() {
    a.query = query.layout;
    a.key = key.layout;
    a.value = value.layout;
    a.output_layout = output.layout;
    a.output = const_cast<char*>(output.layout.data);
    a.num_heads = shape.heads;
    a.num_kv_heads = shape.kv_heads;
    a.query_len = shape.query_len;
    a.kv_len = shape.kv_len;
    a.head_dim = shape.head_dim;
    a.value_dim = shape.value_dim;
    a.scale = 1 / std::sqrt(double(shape.head_dim));
    a.right = shape.right;
    a.query_offset = &shape.offset;
    if (shape.biased) {
      a.bias = bias.layout;
      a.bias.head = 0;
    }
    if (shape.masked) {
      a.mask.data = reinterpret_cast<const char*>(mask.data());
      a.mask.outer = query.layout.outer;
      a.mask.row = shape.kv_len;
      a.mask.column = 1;
    }
    for (int s = 0; s < kNumStatistics; ++s) {
      const auto size = std::size_t(shape.heads * shape.query_len);
      const bool count = kStatistics[s].is_count;
      counts[s].resize(count ? size : 0);
      numbers[s].resize(count ? 0 : size);
      a.statistics[s] = count ? static_cast<void*>(counts[s].data()) : static_cast<void*>(numbers[s].data());
    }
  }
};

// The answer for one row, straight from the definitions.
struct Answer {
  std::vector<double> weights, output;
  double lse = -INFINITY, entropy = 0, distance = 0;
  Index argmax = -1, visible = 0;

  template <class T>
  Answer(const Problem<T>& p, Index h, Index i)
      : weights(std::size_t(p.shape.kv_len)), output(std::size_t(p.shape.value_dim)) {
    double maximum = -INFINITY, total = 0;
    for (Index j = 0; j < p.shape.kv_len; ++j) {
      const double s = weights[std::size_t(j)] = p.visible(i, j) ? p.score(h, i, j) : -INFINITY;
      if (s > maximum) argmax = j;
      maximum = std::fmax(maximum, s);
      visible += s > -INFINITY;
    }
    if (!visible) {
      weights.assign(weights.size(), 0);
      return;
    }
    for (double& w : weights) total += w = std::exp(w - maximum);
    lse = maximum + std::log(total);
    for (Index j = 0; j < p.shape.kv_len; ++j) add_key(p, h, i, j, weights[std::size_t(j)] /= total);
  }

 private:
  template <class T>
  void add_key(const Problem<T>& p, Index h, Index i, Index j, double w) {
    if (w > 0) entropy -= w * std::log(w);
    distance += w * std::fabs(double(i + p.shape.offset - j));
    const Index kv_head = h / (p.shape.heads / p.shape.kv_heads);
    for (Index d = 0; d < p.shape.value_dim; ++d) output[std::size_t(d)] += w * double(p.value.get(kv_head, j, d));
  }
};

}  // namespace headwise::testing
