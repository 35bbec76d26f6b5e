// Small attention problems with every freedom a kernel must cope with, and the answer in plain double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels.hpp"
#include "short_floats.hpp"

namespace headwise::testing {

// What joins the causal band: nothing, an array, one range for each query, equal numbers, or, by `|`, a range.
enum class Joined { nothing, array, ranges, same, either };

struct Shape {
  Index heads, kv_heads, query_len, kv_len, head_dim, value_dim;
  Index right = kUnbounded, offset = 0;
  Joined joined = Joined::nothing;
  bool biased = false;
  Index gap = 0;            // unused elements between rows of key and value
  bool misaligned = false;  // all operands one byte off
  bool capped = false, sloped = false, sunk = false;
  ElementType type = ElementType::float32;  // of all operands, where the working precision is float32
};

// An operand in a buffer of its own, so that reading past it is seen by a sanitizer.
struct Operand {
  std::vector<char> bytes;
  Strided layout;
  Index heads, rows, columns;

  Operand(ElementType type, Index h, Index r, Index c, Index gap, bool misaligned) : heads(h), rows(r), columns(c) {
    static const Index zero = 0;
    const Index size = type == ElementType::float64 ? 8 : type == ElementType::float32 ? 4 : 2;
    const Index row = (c + gap) * size, shift = misaligned ? 1 : 0;
    bytes.resize(std::size_t(h * r * row + shift));
    layout.data = bytes.data() + shift;
    layout.outer = &zero;
    layout.head = r * row;
    layout.row = row;
    layout.column = size;
    layout.type = type;
  }
  char* place(Index h, Index r, Index c) const { return const_cast<char*>(layout.at(0, h, r)) + c * layout.column; }
  double get(Index h, Index r, Index c) const {
    switch (layout.type) {
      case ElementType::float64:
        return read<double>(h, r, c);
      case ElementType::float32:
        return double(read<float>(h, r, c));
      case ElementType::float16:
        return double(from_float16(read<std::uint16_t>(h, r, c)));
      default:
        return double(from_bfloat16(read<std::uint16_t>(h, r, c)));
    }
  }
  void set(Index h, Index r, Index c, double x) const {
    switch (layout.type) {
      case ElementType::float64:
        return write(h, r, c, x);
      case ElementType::float32:
        return write(h, r, c, float(x));
      case ElementType::float16:
        return write(h, r, c, to_float16(float(x)));
      default:
        return write(h, r, c, to_bfloat16(float(x)));
    }
  }

 private:
  template <class A>
  A read(Index h, Index r, Index c) const {
    A x;
    std::memcpy(&x, place(h, r, c), sizeof x);
    return x;
  }
  template <class A>
  void write(Index h, Index r, Index c, A x) const {
    std::memcpy(place(h, r, c), &x, sizeof x);
  }
};

template <class T>
constexpr ElementType type_of(const Shape& s) {
  return sizeof(T) == 8 ? ElementType::float64 : s.type;
}

template <class T>
struct Problem {
  Shape shape;
  Operand query, key, value, output, bias;
  std::vector<unsigned char> mask;
  std::vector<Index> pairs, query_ids, key_ids;  // of ranges, and of equal numbers
  std::vector<double> slopes, sinks, table;
  std::vector<MaskStep> steps;
  std::vector<T> numbers[kNumStatistics];
  std::vector<Index> counts[kNumStatistics];
  Arguments a;

  explicit Problem(const Shape& s, unsigned seed = 1)
      : shape(s),
        query(type_of<T>(s), s.heads, s.query_len, s.head_dim, 0, s.misaligned),
        key(type_of<T>(s), s.kv_heads, s.kv_len, s.head_dim, s.gap, s.misaligned),
        value(type_of<T>(s), s.kv_heads, s.kv_len, s.value_dim, s.gap, s.misaligned),
        output(type_of<T>(s), s.heads, s.query_len, s.value_dim, 0, s.misaligned),
        bias(type_of<T>(s), 1, s.query_len, s.kv_len, 0, s.misaligned) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (const Operand* o : {&query, &key, &value, &bias})
      for (Index h = 0; h < o->heads; ++h)
        for (Index r = 0; r < o->rows; ++r)
          for (Index c = 0; c < o->columns; ++c) o->set(h, r, c, normal(random));
    for (Index k = 0; k < s.query_len * s.kv_len; ++k) mask.push_back(random() % 3 != 0);
    for (Index i = 0; i < s.query_len; ++i) {
      const Index first = s.kv_len ? Index(random() % std::size_t(s.kv_len)) : 0;
      pairs.insert(pairs.end(), {first, std::min(s.kv_len, first + Index(random() % 300))});
      query_ids.push_back(Index(random() % 3));
    }
    for (Index j = 0; j < s.kv_len; ++j) key_ids.push_back(j < 300 ? Index(random() % 3) : 1);
    for (Index h = 0; h < s.heads; ++h) {
      slopes.push_back(0.01 * double(h + 1));
      sinks.push_back(double(h) - 1);
      for (int k = 0; k < 7; ++k) table.push_back(normal(random));
    }
    set_arguments();
    set_mask();
    set_statistics();
  }
  Problem(const Problem&) = delete;

  bool visible(Index i, Index j) const {
    const auto at = [](const auto& numbers, Index k) { return numbers[std::size_t(k)]; };
    const bool band = shape.right == kUnbounded || j <= i + shape.offset + shape.right;
    const bool within = at(pairs, 2 * i) <= j && j < at(pairs, 2 * i + 1);
    switch (shape.joined) {
      case Joined::nothing:
        return band;
      case Joined::array:
        return band && at(mask, i * shape.kv_len + j);
      case Joined::ranges:
        return band && within;
      case Joined::same:
        return band && at(query_ids, i) == at(key_ids, j);
      default:
        return band || within;
    }
  }

  double score(Index h, Index i, Index j) const {
    double sum = 0;
    const Index kv_head = h / (shape.heads / shape.kv_heads), ahead = j - i - shape.offset;
    for (Index d = 0; d < shape.head_dim; ++d) sum += query.get(h, i, d) * key.get(kv_head, j, d);
    sum *= a.scale;
    if (shape.capped) sum = a.softcap * std::tanh(sum / a.softcap);
    if (shape.biased) sum += bias.get(0, i, j);
    if (shape.sloped) {
      sum -= slopes[std::size_t(h)] * std::fabs(double(ahead));
      sum += table[std::size_t(h * 7 + 3 + std::clamp<Index>(ahead, -3, 3))];
    }
    return sum;
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
    a.query_offset = &shape.offset;
    a.bounding = 3;  // the largest keys that second_pass_check.hpp asks for
    if (shape.capped) a.softcap = 0.75;
    if (shape.sunk) a.sink_logits = sinks.data();
    if (shape.sloped) {
      a.slopes = slopes.data();
      a.relative_table = table.data();
      a.reach = 3;
    }
    if (shape.biased) {
      a.bias = bias.layout;
      a.bias.head = 0;
    }
  }

  // An array of whole numbers, one row for each query or key.
  Strided numbers_of(const std::vector<Index>& values, Index columns) const {
    Strided s;
    s.data = reinterpret_cast<const char*>(values.data());
    s.outer = query.layout.outer;
    s.row = columns * Index(sizeof(Index));
    s.column = sizeof(Index);
    return s;
  }

  void set_mask() {
    if (shape.right != kUnbounded || shape.joined != Joined::nothing)
      steps.push_back({MaskStep::band, kUnbounded, shape.right, {}, {}});
    MaskStep leaf{MaskStep::ranges, 0, 0, numbers_of(pairs, 2), {}};
    if (shape.joined == Joined::same) leaf = {MaskStep::same, 0, 0, numbers_of(query_ids, 1), numbers_of(key_ids, 1)};
    if (shape.joined == Joined::array) {
      leaf = {MaskStep::array, 0, 0, numbers_of(pairs, 0), {}};
      leaf.query.data = reinterpret_cast<const char*>(mask.data());
      leaf.query.row = shape.kv_len;
      leaf.query.column = 1;
    }
    if (shape.joined != Joined::nothing) {
      steps.push_back(leaf);
      steps.push_back({shape.joined == Joined::either ? MaskStep::any_of : MaskStep::all_of, 0, 0, {}, {}});
    }
    a.mask = steps.data();
    a.mask_steps = int(steps.size());
  }

  void set_statistics() {
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
  double lse = -INFINITY, entropy = 0, distance = 0, sink = 0;
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
    if (p.shape.sunk) total += sink = std::exp(p.sinks[std::size_t(h)] - maximum);
    sink /= total;
    if (sink > 0) entropy -= sink * std::log(sink);
    lse = maximum + std::log(total);
    for (Index j = 0; j < p.shape.kv_len; ++j) add_key(p, h, i, j, weights[std::size_t(j)] /= total);
  }

 private:
  template <class T>
  void add_key(const Problem<T>& p, Index h, Index i, Index j, double w) {
    if (w > 0) entropy -= w * std::log(w);
    distance += w * std::fabs(double(i + p.shape.offset - j));
    const Index kv_head = h / (p.shape.heads / p.shape.kv_heads);
    for (Index d = 0; d < p.shape.value_dim; ++d) output[std::size_t(d)] += w * p.value.get(kv_head, j, d);
  }
};

}  // namespace headwise::testing
