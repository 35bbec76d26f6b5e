// The extension module: plain functions over buffers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "collecting.hpp"
#include "run.hpp"
#include "team.hpp"

namespace nb = nanobind;

namespace headwise {
namespace {

const Kernels& kernels_named(const std::string& name) {
  int count;
  const Kernels* const* tables = built_kernels(&count);
  for (int k = 0; k < count; ++k)
    if (name == tables[k]->name && runs_here(*tables[k])) return *tables[k];
  throw std::invalid_argument("headwise: the instruction set " + name + " is not available here");
}

// Runs `work(kernels, precision)` without the interpreter's lock.
template <class Work>
void run_unlocked(const std::string& instruction_set, const Call& call, Work work) {
  const Kernels& kernels = kernels_named(instruction_set);
  bool finished;
  {
    const Unlocked unlocked;
    finished = work(kernels, call.working());
  }
  if (!finished) throw nb::python_error();
}

void py_attend(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::list mask, nb::tuple scoring,
               nb::handle query_offset, nb::list statistics, Index first_keys, Index bounding, int num_threads,
               bool team, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics, Role::output);
  require(bounding > 0, "bounding");
  parsed.a.first_keys = first_keys;
  parsed.a.bounding = bounding;
  run_unlocked(instruction_set, parsed, [&](const Kernels& kernels, ElementType type) {
    return attend(parsed.a, kernels, type, {num_threads, team});
  });
}

// NumPy's array type and its `empty`, from when the module is loaded on.
nb::handle array_type, empty;

// Whether three arrays hold native floats of one kind, in shapes that fit without broadcasting.
bool fits_plainly(const Buffer& q, const Buffer& k, const Buffer& v) {
  const auto letter = [](const Buffer& b) { return b.format()[0] && !b.format()[1] ? b.format()[0] : '\0'; };
  const char kind = letter(q);
  if ((kind != 'f' && kind != 'd' && kind != 'e') || letter(k) != kind || letter(v) != kind) return false;
  if (q.ndim() < 2 || k.ndim() != q.ndim() || v.ndim() != q.ndim() || !q.bytes() || !k.bytes() || !v.bytes())
    return false;
  for (int axis = 3; axis < q.ndim(); ++axis)
    if (k.size(axis) != q.size(axis) || v.size(axis) != q.size(axis)) return false;
  const bool grouped = q.ndim() > 3 ? q.size(2) % k.size(2) == 0 : q.size(2) == k.size(2);
  return grouped && v.size(2) == k.size(2) && v.size(1) == k.size(1) && k.size(0) == q.size(0);
}

// The result's array, like the query's but for its last dimension.
nb::object make_output(nb::handle query, const Buffer& q, Index value_dim) {
  nb::object shape = query.attr("shape");
  if (q.size(0) != value_dim) {
    nb::list sizes(shape);
    sizes[sizes.size() - 1] = value_dim;
    shape = nb::tuple(sizes);
  }
  return nb::steal(PyObject_CallFunctionObjArgs(empty.ptr(), shape.ptr(), query.attr("dtype").ptr(), nullptr));
}

// The call that has no option, from arrays to array in one step: None where it is anything but plain, errors included,
// which the long way explains.
nb::object py_attend_plainly(nb::handle query, nb::handle key, nb::handle value, int num_threads,
                             const std::string& instruction_set) {
  for (const nb::handle x : {query, key, value})
    if (x.type().ptr() != array_type.ptr()) return nb::none();
  std::optional<Call> call;
  try {
    call.emplace(query, key, value);
  } catch (nb::python_error&) {
    return nb::none();
  }
  if (!fits_plainly(call->query.buffer, call->key.buffer, call->value.buffer)) return nb::none();
  const nb::object output = make_output(query, call->query.buffer, call->value.buffer.size(0));
  if (!output.is_valid()) throw nb::python_error();
  call->set_output(output, Role::output);
  call->a.scale = 1 / std::sqrt(double(call->a.head_dim));
  run_unlocked(instruction_set, *call, [&](const Kernels& kernels, ElementType type) {
    return attend(call->a, kernels, type, {num_threads, false});
  });
  return output;
}

// `rectangles`: rows of six int64 (see Rectangle), whose weights lie one after another in `weights_out`.
std::vector<Rectangle> parse_rectangles(const Parsed& whole, nb::handle rectangles, const Buffer& out) {
  const Arguments& a = whole.a;
  const Buffer buffer(rectangles, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
  require(is_index(letter_of(buffer.format())), "rectangles");
  const Index size = whole.working() == ElementType::float64 ? 8 : 4;
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

void py_weights(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::list mask, nb::tuple scoring,
                nb::handle query_offset, nb::list statistics, nb::handle rectangles, nb::handle weights_out,
                int num_threads, bool team, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics, Role::input);
  require(parsed.a.statistics[kRowMaximum] && parsed.a.statistics[kRowTotal], "row statistics");
  const Buffer out(weights_out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const auto parts = parse_rectangles(parsed, rectangles, out);
  run_unlocked(instruction_set, parsed, [&](const Kernels& kernels, ElementType type) {
    return weights(parsed.a, kernels, type, parts, {num_threads, team});
  });
}

void py_collect(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::list mask, nb::tuple scoring,
                nb::handle query_offset, nb::list statistics, Index first_keys, Index bounding,
                const nb::dict& collection, bool attended, int num_threads, bool team,
                const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics,
                attended ? Role::input : Role::output);
  require(bounding > 0, "bounding");
  parsed.a.first_keys = first_keys;
  parsed.a.bounding = bounding;
  require(parsed.a.statistics[kRowMaximum] && parsed.a.statistics[kRowTotal], "row statistics");
  Collecting collecting(parsed, collection);
  run_unlocked(instruction_set, parsed, [&](const Kernels& kernels, ElementType type) {
    return collect(parsed.a, collecting.c, attended, kernels, type, {num_threads, team});
  });
}

void py_count_viewers(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::list mask,
                      nb::tuple scoring, nb::handle query_offset, nb::list statistics, nb::handle viewers,
                      nb::handle pairs, int num_threads, bool team, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics, Role::input);
  const Arguments& a = parsed.a;
  const Index heads = a.outer_size * a.num_heads;
  require(a.query_len > 0 && a.kv_len > 0, "lengths");
  Counts counts(viewers, heads * a.kv_len), distances(pairs, heads * (a.query_len + a.kv_len - 1));
  run_unlocked(instruction_set, parsed, [&](const Kernels& kernels, ElementType type) {
    return count_viewers(parsed.a, counts.numbers(), distances.numbers(), kernels, type, {num_threads, team});
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

// One of the vector functions of an instruction set, on numbers that fill its vectors.
void py_function(const std::string& name, nb::handle x, nb::handle y, const std::string& instruction_set) {
  const Buffer in(x, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT), out(y, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const bool single = in.format()[0] == 'f';
  const Index size = single ? 4 : 8, count = in.bytes() / size;
  require(out.bytes() == in.bytes() && count % 64 == 0, "vector functions take a multiple of 64 numbers");
  const TypedKernels& kernels = kernels_named(instruction_set).of(single ? ElementType::float32 : ElementType::float64);
  require(name == "exp2" || name == "tanh", "exp2 or tanh");
  (name == "exp2" ? kernels.exp2 : kernels.tanh)(in.data(), out.data(), count);
}

nb::list py_statistics() {
  nb::list facts;
  for (const StatisticFacts& s : kStatistics) facts.append(nb::make_tuple(s.name, s.is_count));
  return facts;
}

}  // namespace
}  // namespace headwise

// A name by which others find this library among those that are loaded.
extern "C" [[gnu::visibility("default"), gnu::used]] const char headwise_kernels[] = "headwise";

// All calls begin with the same arguments.
template <class Function, class... More>
void define(nb::module_& m, const char* name, Function function, const char* doc, const More&... more) {
  m.def(name, function, doc, nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("output"), nb::arg("mask"),
        nb::arg("scoring"), nb::arg("query_offset"), nb::arg("statistics"), more..., nb::arg("num_threads"),
        nb::arg("team"), nb::arg("instruction_set"));
}

NB_MODULE(_kernel, m) {
  const auto threading = nb::module_::import_("threading");
  headwise::remember_main_thread(nb::cast<unsigned long>(threading.attr("main_thread")().attr("ident")));
  m.doc() = "Attention kernels over buffers; headwise.attention is the public face.";
  define(m, "attend", &headwise::py_attend, "Writes outputs and row statistics.", nb::arg("first_keys"),
         nb::arg("bounding"));
  define(m, "weights", &headwise::py_weights, "Writes the exact weights of rectangles.", nb::arg("rectangles"),
         nb::arg("weights"));
  define(m, "collect", &headwise::py_collect, "Writes outputs, row statistics and what is collected in a second pass.",
         nb::arg("first_keys"), nb::arg("bounding"), nb::arg("collection"), nb::arg("attended"));
  define(m, "count_viewers", &headwise::py_count_viewers,
         "Writes how many queries see each key, and pairs by distance.", nb::arg("viewers"), nb::arg("pairs"));
  const auto numpy = nb::module_::import_("numpy");
  headwise::array_type = nb::object(numpy.attr("ndarray")).release();
  headwise::empty = nb::object(numpy.attr("empty")).release();
  m.def("attend_plainly", &headwise::py_attend_plainly, nb::arg("query").none(), nb::arg("key").none(),
        nb::arg("value").none(), nb::arg("num_threads"), nb::arg("instruction_set"),
        "The attention of three plain arrays without an option; None where they are not plain.");
  m.def("instruction_sets", &headwise::py_instruction_sets, "Instruction sets this machine can run, best first.");
  m.def("team_library", &headwise::team_library, "The OpenMP library whose threads are shared with PyTorch, or ''.");
  m.def("statistics", &headwise::py_statistics, "The row statistics in their order: name, and whether it is a count.");
  m.def("apply", &headwise::py_function, nb::arg("name"), nb::arg("x"), nb::arg("y"), nb::arg("instruction_set"),
        "Writes exp2 or tanh of x to y, for the tests of their errors.");
  m.attr("FEW_ROWS") = headwise::kFewRows;
  m.attr("SPLIT_ROWS") = headwise::kSplitRows;
  m.attr("MASK_DEPTH") = headwise::kMaskDepth;
  m.attr("OFFSET_MARGIN") = headwise::kOffsetMargin;
  m.attr("MASK_KINDS") = nb::make_tuple("band", "ranges", "same", "array", "all_of", "any_of");
}
