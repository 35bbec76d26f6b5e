// The extension module: plain functions over buffers. Shapes and dtypes were checked in Python, where the error texts
// are; here only what could reach past memory is checked again.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>

#include "operands.hpp"
#include "run.hpp"

namespace nb = nanobind;

namespace headwise {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("headwise: inconsistent arrays: ") + what);
}

const Kernels& kernels_named(const std::string& name) {
  int count;
  const Kernels* const* tables = built_kernels(&count);
  for (int k = 0; k < count; ++k)
    if (name == tables[k]->name && runs_here(*tables[k])) return *tables[k];
  throw std::invalid_argument("headwise: the instruction set " + name + " is not available here");
}

// All that a kernel call needs, kept alive.
struct Parsed {
  Operand query, key, value, mask, bias, output;
  std::vector<Index> offsets;
  std::vector<std::unique_ptr<Buffer>> held;
  Arguments a;

  Parsed(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::handle m, nb::handle b, double scale, Index left,
         Index right, nb::handle query_offset, nb::list statistics, Role output_role)
      : query(q, Role::input),
        key(k, Role::input),
        value(v, Role::input),
        mask(m, Role::mask),
        bias(b, Role::input),
        output(out, output_role) {
    const Buffer& whole = output.buffer;
    require(whole.ndim() >= 2 && query.buffer.ndim() >= 2 && key.buffer.ndim() >= 2 && value.buffer.ndim() >= 2,
            "rank");
    a.query = query.strided(whole);
    a.key = key.strided(whole);
    a.value = value.strided(whole);
    a.mask = mask.strided(whole);
    a.bias = bias.strided(whole);
    a.output_layout = output.strided(whole);
    a.output = output.buffer.data();
    a.outer_size = Index(output.outer.size());
    a.num_heads = whole.size(2);
    a.num_kv_heads = key.buffer.size(2);
    a.query_len = whole.size(1);
    a.kv_len = key.buffer.size(1);
    a.head_dim = query.buffer.size(0);
    a.value_dim = whole.size(0);
    a.scale = scale;
    check();
    set_positions(left, right, query_offset);
    set_statistics(statistics);
  }

  void check() const {
    require(a.query.type == a.output_layout.type && !a.output_layout.swapped, "precision of query and output");
    require(a.num_kv_heads > 0 ? a.num_heads % a.num_kv_heads == 0 : a.num_heads == 0, "heads");
    require(query.buffer.size(2) == a.num_heads || query.buffer.size(2) == 1, "heads of query");
    require(query.buffer.size(1) == a.query_len, "query length");
    require(key.buffer.size(0) == a.head_dim, "head_dim of key");
    require(value.buffer.size(2) == a.num_kv_heads && value.buffer.size(1) == a.kv_len, "key and value");
    require(value.buffer.size(0) == a.value_dim, "value_dim");
    for (const Operand* o : {&query, &key, &value, &mask, &bias}) check_broadcast(o->buffer);
    for (const Operand* o : {&mask, &bias}) {
      if (!o->buffer) continue;
      const Index sizes[] = {a.kv_len, a.query_len, a.num_heads};
      for (int axis = 0; axis < 3; ++axis)
        require(o->buffer.size(axis) == 1 || o->buffer.size(axis) == sizes[axis], "mask or bias");
    }
  }

  void check_broadcast(const Buffer& buffer) const {
    for (int axis = 3; axis < buffer.ndim(); ++axis)
      require(buffer.size(axis) == 1 || buffer.size(axis) == output.buffer.size(axis), "leading dimensions");
  }

  void set_positions(Index left, Index right, nb::handle query_offset) {
    a.left = left;
    a.right = right;
    if (nb::isinstance<nb::int_>(query_offset)) {
      offsets.assign(a.outer_size, nb::cast<Index>(query_offset));
    } else {
      const Buffer buffer(query_offset, PyBUF_C_CONTIGUOUS);
      require(buffer.bytes() == a.outer_size * Index(sizeof(Index)), "query_offset");
      offsets.resize(a.outer_size);
      std::memcpy(offsets.data(), buffer.data(), buffer.bytes());
    }
    a.query_offset = offsets.data();
  }

  // `statistics`: pairs of a number and an array.
  void set_statistics(nb::list statistics) {
    for (nb::handle entry : statistics) {
      const auto pair = nb::cast<nb::tuple>(entry);
      const int number = nb::cast<int>(pair[0]);
      held.push_back(std::make_unique<Buffer>(pair[1], PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE));
      require(number >= 0 && number < kNumStatistics, "statistic");
      const Index size = kStatistics[number].is_count || a.query.type == ElementType::float64 ? 8 : 4;
      require(held.back()->bytes() == a.outer_size * a.num_heads * a.query_len * size, "size of a statistic");
      a.statistics[number] = held.back()->data();
    }
  }
};

// Runs `work(kernels, precision)` without the interpreter's lock.
template <class Work>
void run_unlocked(const std::string& instruction_set, const Parsed& parsed, Work work) {
  const Kernels& kernels = kernels_named(instruction_set);
  bool finished;
  {
    const Unlocked unlocked;
    finished = work(kernels, parsed.a.query.type);
  }
  if (!finished) throw nb::python_error();
}

void py_attend(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle mask, nb::handle bias,
               double scale, Index left, Index right, nb::handle query_offset, nb::list statistics, Index first_keys,
               int num_threads, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, bias, scale, left, right, query_offset, statistics, Role::output);
  parsed.a.first_keys = first_keys;
  run_unlocked(instruction_set, parsed,
               [&](const Kernels& kernels, ElementType type) { return attend(parsed.a, kernels, type, num_threads); });
}

// `rectangles`: rows of six int64 (see Rectangle), whose weights lie one after another in `weights_out`.
std::vector<Rectangle> parse_rectangles(const Arguments& a, nb::handle rectangles, const Buffer& out) {
  const Buffer buffer(rectangles, PyBUF_C_CONTIGUOUS);
  const Index size = a.query.type == ElementType::float64 ? 8 : 4;
  std::vector<Rectangle> parsed(std::size_t(buffer.bytes()) / (6 * sizeof(Index)));
  Index used = 0;
  const char* next = buffer.data();
  for (Rectangle& r : parsed) {
    Index numbers[6];
    std::memcpy(numbers, next, sizeof numbers);
    next += sizeof numbers;
    r = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], out.data() + used};
    require(0 <= r.item && r.item < a.outer_size && 0 <= r.head && r.head < a.num_heads, "item or head");
    require(0 <= r.query_begin && r.query_begin <= r.query_end && r.query_end <= a.query_len, "queries");
    require(0 <= r.key_begin && r.key_begin <= r.key_end && r.key_end <= a.kv_len, "keys");
    used += (r.query_end - r.query_begin) * (r.key_end - r.key_begin) * size;
  }
  require(used == out.bytes(), "size of weights");
  return parsed;
}

void py_weights(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle mask, nb::handle bias,
                double scale, Index left, Index right, nb::handle query_offset, nb::list statistics,
                nb::handle rectangles, nb::handle weights_out, int num_threads, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, bias, scale, left, right, query_offset, statistics, Role::input);
  require(parsed.a.statistics[kRowMaximum] && parsed.a.statistics[kRowTotal], "row statistics");
  const Buffer out(weights_out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const auto parts = parse_rectangles(parsed.a, rectangles, out);
  run_unlocked(instruction_set, parsed, [&](const Kernels& kernels, ElementType type) {
    return weights(parsed.a, kernels, type, parts, num_threads);
  });
}

std::vector<std::string> py_instruction_sets() {
  int count;
  const Kernels* const* tables = built_kernels(&count);
  std::vector<std::string> names;
  for (int k = 0; k < count; ++k)
    if (runs_here(*tables[k])) names.emplace_back(tables[k]->name);
  return names;
}

void py_exp2(nb::handle x, nb::handle y, const std::string& instruction_set) {
  const Buffer in(x, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT), out(y, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const bool single = in.format()[0] == 'f';
  const Index size = single ? 4 : 8, count = in.bytes() / size;
  require(out.bytes() == in.bytes() && count % 64 == 0, "exp2 takes a multiple of 64 numbers");
  const Kernels& kernels = kernels_named(instruction_set);
  (single ? kernels.float32 : kernels.float64).exp2(in.data(), out.data(), count);
}

nb::list py_statistics() {
  nb::list facts;
  for (const StatisticFacts& s : kStatistics) facts.append(nb::make_tuple(s.name, s.is_count));
  return facts;
}

}  // namespace
}  // namespace headwise

// Both calls begin with the same arguments; mask and bias may be None.
template <class Function, class... More>
void define(nb::module_& m, const char* name, Function function, const char* doc, const More&... more) {
  m.def(name, function, doc, nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("output"),
        nb::arg("mask").none(), nb::arg("bias").none(), nb::arg("scale"), nb::arg("left"), nb::arg("right"),
        nb::arg("query_offset"), nb::arg("statistics"), more..., nb::arg("num_threads"), nb::arg("instruction_set"));
}

NB_MODULE(_kernel, m) {
  const auto threading = nb::module_::import_("threading");
  headwise::remember_main_thread(nb::cast<unsigned long>(threading.attr("main_thread")().attr("ident")));
  m.doc() = "Attention kernels over buffers; headwise.attention is the public face.";
  define(m, "attend", &headwise::py_attend, "Writes outputs and row statistics.", nb::arg("first_keys"));
  define(m, "weights", &headwise::py_weights, "Writes the exact weights of rectangles.", nb::arg("rectangles"),
         nb::arg("weights"));
  m.def("instruction_sets", &headwise::py_instruction_sets, "Instruction sets this machine can run, best first.");
  m.def("statistics", &headwise::py_statistics, "The row statistics in their order: name, and whether it is a count.");
  m.def("exp2", &headwise::py_exp2, "2 to the power x, for the tests of its error.");
  m.attr("FEW_ROWS") = headwise::kFewRows;
}
