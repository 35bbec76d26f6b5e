// From Python's arguments to the kernels'. Shapes and dtypes were checked in Python, where the error texts are; here
// only what could reach past memory is checked again.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>
#include <optional>

#include "operands.hpp"

namespace headwise {

namespace nb = nanobind;

inline void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("headwise: inconsistent arrays: ") + what);
}

// Whether the last three dimensions broadcast to these sizes, counted from the last one.
inline bool fits(const Buffer& buffer, Index last, Index second, Index third) {
  const Index sizes[] = {last, second, third};
  for (int axis = 0; axis < 3; ++axis)
    if (buffer.size(axis) != 1 && buffer.size(axis) != sizes[axis]) return false;
  return true;
}

// The mask's program: tuples of a kind and what that kind needs.
class MaskProgram {
 public:
  MaskProgram(nb::list steps, const Buffer& whole, Index kv_len) : whole_(whole), kv_len_(kv_len) {
    int depth = 0;
    for (nb::handle entry : steps) {
      const auto step = nb::cast<nb::tuple>(entry);
      steps_.push_back(parse(MaskStep::Kind(nb::cast<int>(step[0])), step));
      depth += steps_.back().kind < MaskStep::all_of ? 1 : -1;
      require(0 < depth && depth <= kMaskDepth, "depth of the mask");
    }
    require(depth == (steps_.empty() ? 0 : 1), "mask");
  }
  const std::vector<MaskStep>& steps() const { return steps_; }

 private:
  MaskStep parse(MaskStep::Kind kind, const nb::tuple& step) {
    MaskStep parsed{kind, kUnbounded, kUnbounded, {}, {}};
    const Index query_len = whole_.size(1);
    switch (kind) {
      case MaskStep::band:
        parsed.left = nb::cast<Index>(step[1]);
        parsed.right = nb::cast<Index>(step[2]);
        break;
      case MaskStep::ranges:
        parsed.query = hold(step[1], Role::whole_numbers, 2, query_len, 1);
        require(held_.back()->buffer.size(0) == 2, "ranges of the mask");
        break;
      case MaskStep::same:
        parsed.query = hold(step[1], Role::whole_numbers, 1, query_len, 1);
        parsed.key = hold(step[2], Role::whole_numbers, 1, kv_len_, 1);
        break;
      case MaskStep::array:
        parsed.query = hold(step[1], Role::booleans, kv_len_, query_len, whole_.size(2));
        break;
      default:
        require(kind == MaskStep::all_of || kind == MaskStep::any_of, "kind of a mask's step");
    }
    return parsed;
  }

  Strided hold(nb::handle array, Role role, Index last, Index second, Index third) {
    held_.push_back(std::make_unique<Operand>(array, role));
    require(bool(held_.back()->buffer) && fits(held_.back()->buffer, last, second, third), "mask");
    return held_.back()->strided(whole_);
  }

  const Buffer& whole_;
  Index kv_len_;
  std::vector<std::unique_ptr<Operand>> held_;
  std::vector<MaskStep> steps_;
};

// Numbers of each head, in float64.
class HeadNumbers {
 public:
  explicit HeadNumbers(nb::handle array) : buffer_(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) {}
  // Pointer to `count` numbers, or null where none were given.
  const double* get(Index count) const {
    if (!buffer_) return nullptr;
    require(buffer_.format()[0] == 'd' && buffer_.bytes() == count * Index(sizeof(double)), "numbers of heads");
    return reinterpret_cast<const double*>(buffer_.data());
  }
  Index last_size() const { return buffer_ ? buffer_.size(0) : 1; }

 private:
  Buffer buffer_;
};

// What comes into the scores, as a tuple: (scale, softcap, bias, slopes, relative table, sink logits).
struct Scoring {
  Operand bias;
  HeadNumbers slopes, table, sinks;
  double scale, softcap;

  explicit Scoring(const nb::tuple& t)
      : bias(t[2], Role::input),
        slopes(t[3]),
        table(t[4]),
        sinks(t[5]),
        scale(nb::cast<double>(t[0])),
        softcap(nb::cast<double>(t[1])) {}

  void set(Arguments& a, const Buffer& whole) {
    require(!bias.buffer || fits(bias.buffer, a.kv_len, a.query_len, a.num_heads), "bias");
    a.bias = bias.strided(whole);
    a.scale = scale;
    a.softcap = softcap;
    a.slopes = slopes.get(a.num_heads);
    a.sink_logits = sinks.get(a.num_heads);
    require(table.last_size() % 2 == 1, "relative table");
    a.reach = table.last_size() / 2;
    a.relative_table = table.get(a.num_heads * table.last_size());
  }
};

// The operands of a call, kept alive, and what the kernels are told of them.
struct Call {
  Operand query, key, value;
  std::optional<Operand> output;
  std::vector<Index> offsets;
  Arguments a;

  Call(nb::handle q, nb::handle k, nb::handle v) : query(q, Role::input), key(k, Role::input), value(v, Role::input) {}

  void set_output(nb::handle out, Role role) {
    output.emplace(out, role);
    const Buffer& whole = output->buffer;
    require(whole.ndim() >= 2 && query.buffer.ndim() >= 2 && key.buffer.ndim() >= 2 && value.buffer.ndim() >= 2,
            "rank");
    a.query = query.strided(whole);
    a.key = key.strided(whole);
    a.value = value.strided(whole);
    a.output_layout = output->strided(whole);
    a.output = whole.data();
    a.outer_size = Index(output->outer.size());
    a.num_heads = whole.size(2);
    a.num_kv_heads = key.buffer.size(2);
    a.query_len = whole.size(1);
    a.kv_len = key.buffer.size(1);
    a.head_dim = query.buffer.size(0);
    a.value_dim = whole.size(0);
    check();
    set_position(0);
  }

  // Query 0 stands at the same place in every outer item.
  void set_position(Index query_offset) {
    offsets.assign(a.outer_size, query_offset);
    a.query_offset = offsets.data();
  }

  // The precision that everything is computed in.
  ElementType working() const {
    return a.query.type == ElementType::float64 ? ElementType::float64 : ElementType::float32;
  }

 private:
  void check() const {
    require(a.query.type == a.output_layout.type && !a.output_layout.swapped, "precision of query and output");
    require(a.num_kv_heads > 0 ? a.num_heads % a.num_kv_heads == 0 : a.num_heads == 0, "heads");
    require(query.buffer.size(2) == a.num_heads || query.buffer.size(2) == 1, "heads of query");
    require(query.buffer.size(1) == a.query_len, "query length");
    require(key.buffer.size(0) == a.head_dim, "head_dim of key");
    require(value.buffer.size(2) == a.num_kv_heads && value.buffer.size(1) == a.kv_len, "key and value");
    require(value.buffer.size(0) == a.value_dim, "value_dim");
  }
};

// A call with everything that may come with it.
struct Parsed : Call {
  Scoring scoring;
  std::optional<MaskProgram> mask;
  std::vector<std::unique_ptr<Buffer>> held;

  Parsed(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::list mask_steps, const nb::tuple& scores,
         nb::handle query_offset, nb::list statistics, Role output_role)
      : Call(q, k, v), scoring(scores) {
    set_output(out, output_role);
    scoring.set(a, output->buffer);
    mask.emplace(mask_steps, output->buffer, a.kv_len);
    a.mask = mask->steps().data();
    a.mask_steps = int(mask->steps().size());
    set_positions(query_offset);
    set_statistics(statistics);
  }

 private:
  void set_positions(nb::handle query_offset) {
    if (nb::isinstance<nb::int_>(query_offset)) {
      set_position(nb::cast<Index>(query_offset));
    } else {
      const Buffer buffer(query_offset, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
      require(is_index(letter_of(buffer.format())) && buffer.bytes() == a.outer_size * Index(sizeof(Index)),
              "query_offset");
      std::memcpy(offsets.data(), buffer.data(), buffer.bytes());
    }
  }

  // `statistics`: pairs of a number and an array.
  void set_statistics(nb::list statistics) {
    for (nb::handle entry : statistics) {
      const auto pair = nb::cast<nb::tuple>(entry);
      const int number = nb::cast<int>(pair[0]);
      held.push_back(std::make_unique<Buffer>(pair[1], PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT));
      require(number >= 0 && number < kNumStatistics, "statistic");
      const char letter = letter_of(held.back()->format());
      require(kStatistics[number].is_count ? is_index(letter) : letter == 'd' || letter == 'f', "kind of a statistic");
      const Index size = kStatistics[number].is_count || working() == ElementType::float64 ? 8 : 4;
      require(held.back()->bytes() == a.outer_size * a.num_heads * a.query_len * size, "size of a statistic");
      a.statistics[number] = held.back()->data();
    }
  }
};

}  // namespace headwise
