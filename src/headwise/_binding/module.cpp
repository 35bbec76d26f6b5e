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

// Whether the last three dimensions broadcast to these sizes, counted from the last one.
bool fits(const Buffer& buffer, Index last, Index second, Index third) {
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

// All that a kernel call needs, kept alive.
struct Parsed {
  Operand query, key, value, output;
  Scoring scoring;
  std::unique_ptr<MaskProgram> mask;
  std::vector<Index> offsets;
  std::vector<std::unique_ptr<Buffer>> held;
  Arguments a;

  Parsed(nb::handle q, nb::handle k, nb::handle v, nb::handle out, nb::list mask_steps, const nb::tuple& scores,
         nb::handle query_offset, nb::list statistics, Role output_role)
      : query(q, Role::input), key(k, Role::input), value(v, Role::input), output(out, output_role), scoring(scores) {
    const Buffer& whole = output.buffer;
    require(whole.ndim() >= 2 && query.buffer.ndim() >= 2 && key.buffer.ndim() >= 2 && value.buffer.ndim() >= 2,
            "rank");
    a.query = query.strided(whole);
    a.key = key.strided(whole);
    a.value = value.strided(whole);
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
    scoring.set(a, whole);
    mask = std::make_unique<MaskProgram>(mask_steps, whole, a.kv_len);
    a.mask = mask->steps().data();
    a.mask_steps = int(mask->steps().size());
    set_positions(query_offset);
    set_statistics(statistics);
  }

  // The precision that everything is computed in.
  ElementType working() const {
    return a.query.type == ElementType::float64 ? ElementType::float64 : ElementType::float32;
  }

  void check() const {
    require(a.query.type == a.output_layout.type && !a.output_layout.swapped, "precision of query and output");
    require(a.num_kv_heads > 0 ? a.num_heads % a.num_kv_heads == 0 : a.num_heads == 0, "heads");
    require(query.buffer.size(2) == a.num_heads || query.buffer.size(2) == 1, "heads of query");
    require(query.buffer.size(1) == a.query_len, "query length");
    require(key.buffer.size(0) == a.head_dim, "head_dim of key");
    require(value.buffer.size(2) == a.num_kv_heads && value.buffer.size(1) == a.kv_len, "key and value");
    require(value.buffer.size(0) == a.value_dim, "value_dim");
  }

  void set_positions(nb::handle query_offset) {
    if (nb::isinstance<nb::int_>(query_offset)) {
      offsets.assign(a.outer_size, nb::cast<Index>(query_offset));
    } else {
      const Buffer buffer(query_offset, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
      require(is_index(letter_of(buffer.format())) && buffer.bytes() == a.outer_size * Index(sizeof(Index)),
              "query_offset");
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

// Runs `work(kernels, precision)` without the interpreter's lock.
template <class Work>
void run_unlocked(const std::string& instruction_set, const Parsed& parsed, Work work) {
  const Kernels& kernels = kernels_named(instruction_set);
  bool finished;
  {
    const Unlocked unlocked;
    finished = work(kernels, parsed.working());
  }
  if (!finished) throw nb::python_error();
}

void py_attend(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::list mask, nb::tuple scoring,
               nb::handle query_offset, nb::list statistics, Index first_keys, int num_threads,
               const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics, Role::output);
  parsed.a.first_keys = first_keys;
  run_unlocked(instruction_set, parsed,
               [&](const Kernels& kernels, ElementType type) { return attend(parsed.a, kernels, type, num_threads); });
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
                int num_threads, const std::string& instruction_set) {
  Parsed parsed(query, key, value, output, mask, scoring, query_offset, statistics, Role::input);
  require(parsed.a.statistics[kRowMaximum] && parsed.a.statistics[kRowTotal], "row statistics");
  const Buffer out(weights_out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const auto parts = parse_rectangles(parsed, rectangles, out);
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

// Both calls begin with the same arguments.
template <class Function, class... More>
void define(nb::module_& m, const char* name, Function function, const char* doc, const More&... more) {
  m.def(name, function, doc, nb::arg("query"), nb::arg("key"), nb::arg("value"), nb::arg("output"), nb::arg("mask"),
        nb::arg("scoring"), nb::arg("query_offset"), nb::arg("statistics"), more..., nb::arg("num_threads"),
        nb::arg("instruction_set"));
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
  m.def("apply", &headwise::py_function, nb::arg("name"), nb::arg("x"), nb::arg("y"), nb::arg("instruction_set"),
        "Writes exp2 or tanh of x to y, for the tests of their errors.");
  m.attr("FEW_ROWS") = headwise::kFewRows;
  m.attr("SPLIT_ROWS") = headwise::kSplitRows;
  m.attr("MASK_DEPTH") = headwise::kMaskDepth;
  m.attr("MASK_KINDS") = nb::make_tuple("band", "ranges", "same", "array", "all_of", "any_of");
}
