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

const char* const kStatisticNames[] = {
    "lse",         "max_score",     "entropy",          "max_weight",  "argmax",
    "distance",    "self_weight",   "previous_weight",  "next_weight", "first_weight",
    "output_norm", "visible_count", "visible_distance", "row_maximum", "row_total"};
static_assert(sizeof kStatisticNames / sizeof *kStatisticNames == kNumStatistics);

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
struct Call {
  Operand query, key, value, mask, bias, output;
  std::vector<Index> offsets;
  std::vector<std::unique_ptr<Buffer>> held;
  Arguments a;

  Call(nb::handle q, nb::handle k, nb::handle v, nb::handle m, nb::handle b, nb::handle out, bool writable)
      : query(q), key(k), value(v), mask(m), bias(b), output(out, writable) {
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
    check();
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
      const bool whole = number == kArgmax || number == kVisibleCount || number == kVisibleDistance;
      const Index size = whole || a.query.type == ElementType::float64 ? 8 : 4;
      require(held.back()->bytes() == a.outer_size * a.num_heads * a.query_len * size, "size of a statistic");
      a.statistics[number] = held.back()->data();
    }
  }
};

void py_attend(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle mask, nb::handle bias,
               double scale, Index left, Index right, nb::handle query_offset, nb::list statistics, Index first_keys,
               int num_threads, const std::string& instruction_set) {
  Call call(query, key, value, mask, bias, output, true);
  call.a.scale = scale;
  call.a.first_keys = first_keys;
  call.set_positions(left, right, query_offset);
  call.set_statistics(statistics);
  const Kernels& kernels = kernels_named(instruction_set);
  bool finished;
  {
    nb::gil_scoped_release release;
    finished = attend(call.a, kernels, call.a.query.type, num_threads);
  }
  if (!finished) throw nb::python_error();
}

void py_weights(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle mask, nb::handle bias,
                double scale, Index left, Index right, nb::handle query_offset, nb::list statistics,
                const std::vector<Index>& rectangle, nb::handle weights_out, int num_threads,
                const std::string& instruction_set) {
  Call call(query, key, value, mask, bias, output, false);
  call.a.scale = scale;
  call.set_positions(left, right, query_offset);
  call.set_statistics(statistics);
  require(call.a.statistics[kRowMaximum] && call.a.statistics[kRowTotal], "row statistics");
  require(rectangle.size() == 6, "rectangle");
  Rectangle r{rectangle[0], rectangle[1], rectangle[2], rectangle[3], rectangle[4], rectangle[5], nullptr};
  require(0 <= r.item && r.item < call.a.outer_size && 0 <= r.head && r.head < call.a.num_heads, "item or head");
  require(0 <= r.query_begin && r.query_begin <= r.query_end && r.query_end <= call.a.query_len, "queries");
  require(0 <= r.key_begin && r.key_begin <= r.key_end && r.key_end <= call.a.kv_len, "keys");
  const Buffer out(weights_out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const Index size = call.a.query.type == ElementType::float64 ? 8 : 4;
  require(out.bytes() == (r.query_end - r.query_begin) * (r.key_end - r.key_begin) * size, "size of weights");
  r.weights = out.data();
  const Kernels& kernels = kernels_named(instruction_set);
  bool finished;
  {
    nb::gil_scoped_release release;
    finished = weights(call.a, kernels, call.a.query.type, r, num_threads);
  }
  if (!finished) throw nb::python_error();
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

std::vector<std::string> py_statistic_names() { return {kStatisticNames, kStatisticNames + kNumStatistics}; }

}  // namespace
}  // namespace headwise

// Both calls begin with the same ten arguments; mask and bias may be None.
template <class Function, class... More>
void define(nb::module_& m, const char* name, Function function, const char* doc, const More&... more) {
  m.def(name, function, doc, nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("output"),
        nb::arg("mask").none(), nb::arg("bias").none(), nb::arg("scale"), nb::arg("left"), nb::arg("right"),
        nb::arg("query_offset"), nb::arg("statistics"), more..., nb::arg("num_threads"), nb::arg("instruction_set"));
}

NB_MODULE(_kernel, m) {
  m.doc() = "Attention kernels over buffers; headwise.attention is the public face.";
  define(m, "attend", &headwise::py_attend, "Writes outputs and row statistics.", nb::arg("first_keys"));
  define(m, "weights", &headwise::py_weights, "Writes the exact weights of a rectangle of one head.",
         nb::arg("rectangle"), nb::arg("weights"));
  m.def("instruction_sets", &headwise::py_instruction_sets, "Instruction sets this machine can run, best first.");
  m.def("statistic_names", &headwise::py_statistic_names, "Names of the row statistics, in their order.");
  m.def("exp2", &headwise::py_exp2, "2 to the power x, for the tests of its error.");
  m.attr("FEW_ROWS") = headwise::kFewRows;
}
