// Every kernel of every instruction set that this machine runs, against plain double precision, without Python.
#include <cstdio>
#include <cstdlib>
#include <new>

#include "second_pass_check.hpp"

namespace headwise::testing {
namespace {

int failures = 0;

template <class T>
constexpr double kTolerance = sizeof(T) == 4 ? 4e-6 : 1e-14;

void check(bool good, const char* set, const char* what, const Shape& s, double got, double want) {
  if (good) return;
  ++failures;
  std::printf("%s: %s: got %g, expected %g (heads %ld/%ld, %ld x %ld, dims %ld, %ld)\n", set, what, got, want,
              long(s.heads), long(s.kv_heads), long(s.query_len), long(s.kv_len), long(s.head_dim), long(s.value_dim));
}

template <class T>
void check_near(double got, double want, const char* set, const char* what, const Shape& s) {
  const double allowed = kTolerance<T> * (1 + std::fabs(want));
  check(got == want || std::fabs(got - want) <= allowed, set, what, s, got, want);
}

// Scratch of exactly the size asked for, aligned as the boundary aligns it.
class Scratch {
 public:
  explicit Scratch(Index bytes) : data_(static_cast<char*>(::operator new(std::size_t(bytes), std::align_val_t{64}))) {}
  ~Scratch() { ::operator delete(data_, std::align_val_t{64}); }
  Scratch(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

void run_blocks(const Arguments& a, const TypedKernels& k, Index rows) {
  const Scratch scratch(k.block_scratch(a, rows));
  for (Index head = 0; head < a.num_kv_heads; ++head)
    for (Index begin = 0; begin < a.rows(); begin += rows) {
      const Index end = begin + rows < a.rows() ? begin + rows : a.rows();
      k.attend_block(a, {0, head, begin, end}, {}, scratch.data());
    }
}

void run_chunks(const Arguments& a, const TypedKernels& k) {
  const Index chunks = a.kv_len ? (a.kv_len + k.chunk_keys(a) - 1) / k.chunk_keys(a) : 1;
  const Scratch scratch(k.chunk_scratch(a)), partials(k.partial_bytes(a) * chunks);
  for (Index head = 0; head < a.num_kv_heads; ++head) {
    const RowRange range{0, head, 0, a.rows()};
    for (Index chunk = 0; chunk < chunks; ++chunk)
      k.attend_chunk(a, range, chunk, partials.data() + chunk * k.partial_bytes(a), scratch.data());
    k.merge_chunks(a, range, chunks, partials.data());
  }
}

template <class T>
void check_weights(Problem<T>& p, const TypedKernels& k, const char* set) {
  const Scratch scratch(k.weights_scratch(p.a, 1));
  std::vector<T> weights(std::size_t(p.shape.kv_len));
  for (Index h = 0; h < p.shape.heads; ++h)
    for (Index i = 0; i < p.shape.query_len; i += 3) {
      k.weights(p.a, {0, h, i, i + 1, 0, p.shape.kv_len, weights.data()}, scratch.data());
      const Answer answer(p, h, i);
      for (std::size_t j = 0; j < weights.size(); ++j)
        check_near<T>(double(weights[j]), answer.weights[j], set, "weight", p.shape);
    }
}

void run_bands(const Arguments& a, const Collection& c, const TypedKernels& k) {
  const Scratch scratch(k.collect_scratch(a, c, a.num_kv_heads));
  for (Index band = 0; band < c.bands; ++band) k.collect(a, c, {0, 0, a.num_kv_heads, band}, scratch.data());
}

// Both passes in one, where scores are kept, leave the same bits as one after the other.
template <class T>
void check_kept_scores(Problem<T>& apart, Problem<T>& together, const TypedKernels& k, const char* set) {
  const Shape& shape = apart.shape;
  if (apart.a.rows() < kFewRows || shape.query_len * shape.kv_len == 0) return;
  Collected<T> want(apart.a), got(together.a);
  run_blocks(apart.a, k, k.block_rows(apart.a));
  run_bands(apart.a, want.c, k);
  got.c.attends = true;
  run_bands(together.a, got.c, k);
  check(same_bits(together.output.bytes, apart.output.bytes), set, "kept scores: output", shape, 0, 1);
  for (int s = 0; s < kNumStatistics; ++s) {
    if (s == kComputedKeys) continue;  // a strip computes what any of its rows sees
    const bool same = same_bits(together.numbers[s], apart.numbers[s]) && together.counts[s] == apart.counts[s];
    check(same, set, kStatistics[s].name, shape, 0, 1);
  }
  check(got.same_bits_as(want), set, "kept scores: what is collected", shape, 0, 1);
}

template <class T>
void check_second_pass(Problem<T>& p, const TypedKernels& k, const char* set) {
  Arguments& a = p.a;
  if (a.query_len * a.kv_len == 0) return;
  Collected<T> got(a);
  run_bands(a, got.c, k);
  for (Index h = 0; h < a.num_heads; ++h)
    k.count_viewers(a, 0, h, got.viewers.data() + h * a.kv_len, got.pairs.data() + h * (a.query_len + a.kv_len - 1));
  compare_collected(p, got,
                    [&](const char* what, double x, double want) { check_near<T>(x, want, set, what, p.shape); });
}

// An output of 16 bits is the answer rounded to them.
template <class T>
void check_output(const Problem<T>& p, double got, double want, const char* set) {
  const ElementType type = p.output.layout.type;
  const double rounding = type == ElementType::float16 ? 0x1p-11 : type == ElementType::bfloat16 ? 0x1p-8 : 0;
  const double allowed = kTolerance<T> + rounding * std::fabs(want);
  check(std::fabs(got - want) <= allowed + kTolerance<T> * std::fabs(want), set, "output", p.shape, got, want);
}

template <class T>
void check_rows(const Problem<T>& p, const char* set) {
  for (Index h = 0; h < p.shape.heads; ++h)
    for (Index i = 0; i < p.shape.query_len; ++i) {
      const Answer answer(p, h, i);
      const auto row = std::size_t(h * p.shape.query_len + i);
      for (Index d = 0; d < p.shape.value_dim; ++d)
        check_output<T>(p, p.output.get(h, i, d), answer.output[std::size_t(d)], set);
      check_near<T>(double(p.numbers[kLse][row]), answer.lse, set, "lse", p.shape);
      check_near<T>(double(p.numbers[kEntropy][row]), answer.entropy, set, "entropy", p.shape);
      check_near<T>(double(p.numbers[kDistance][row]), answer.distance, set, "distance", p.shape);
      check_near<T>(double(p.numbers[kSinkWeight][row]), answer.sink, set, "sink weight", p.shape);
      check_near<T>(double(p.counts[kArgmax][row]), double(answer.argmax), set, "argmax", p.shape);
      check_near<T>(double(p.counts[kVisibleCount][row]), double(answer.visible), set, "visible count", p.shape);
    }
}

template <class T>
void test_shape(const Shape& shape, const TypedKernels& k, const char* set) {
  Problem<T> apart(shape), together(shape);
  check_kept_scores(apart, together, k, set);
  Problem<T> blocks(shape);
  run_blocks(blocks.a, k, k.block_rows(blocks.a));
  check_rows(blocks, set);
  if (blocks.a.rows() > kSplitRows) {
    check_weights(blocks, k, set);
    return check_second_pass(blocks, k, set);
  }
  Problem<T> chunks(shape);
  run_chunks(chunks.a, k);
  check_rows(chunks, set);
  check_weights(chunks, k, set);
  check_second_pass(chunks, k, set);
}

// A NaN in a key and value that only the last query sees shows there and nowhere else, in either kernel.
template <class T>
void test_hidden_nan(const TypedKernels& k, const char* set) {
  for (const Index query_len : {5, 40}) {
    const Shape shape{2, 1, query_len, 300, 19, 21, 0, 200};
    Problem<T> p(shape), together(shape);
    const Index last = query_len + 199;
    for (Problem<T>* each : {&p, &together}) {
      each->key.set(0, last, 3, NAN);
      each->value.set(0, last, 3, NAN);
    }
    query_len < 8 ? run_chunks(p.a, k) : run_blocks(p.a, k, k.block_rows(p.a));
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < query_len; ++i)
        for (Index d = 0; d < 21; ++d) {
          const double x = p.output.get(h, i, d);
          check(std::isnan(x) == (i == query_len - 1), set, "hidden NaN", shape, x, 0);
        }
    check_kept_scores(p, together, k, set);
  }
}

// Every number of 16 bits that is not NaN comes back as it was, and the smallest and largest are what they should be.
void test_short_floats() {
  const Shape none{};
  for (int k = 0; k < 0x10000; ++k) {
    const auto bits = std::uint16_t(k);
    const float half = from_float16(bits), brain = from_bfloat16(bits);
    check(std::isnan(half) || to_float16(half) == bits, "all", "float16", none, double(half), k);
    check(std::isnan(brain) || to_bfloat16(brain) == bits, "all", "bfloat16", none, double(brain), k);
  }
  check(from_float16(1) == 0x1p-24f, "all", "least float16", none, double(from_float16(1)), 0x1p-24);
  check(from_float16(0x7bff) == 65504, "all", "largest float16", none, double(from_float16(0x7bff)), 65504);
  check(to_float16(65520) == 0x7c00, "all", "beyond float16", none, to_float16(65520), 0x7c00);
  check(std::isnan(from_float16(to_float16(NAN))), "all", "NaN as float16", none, 0, NAN);
  check(std::isnan(from_bfloat16(to_bfloat16(NAN))), "all", "NaN as bfloat16", none, 0, NAN);
}

// Where all scores are equal, the first key has the largest weight, across tiles and chunks.
template <class T>
void test_ties(const TypedKernels& k, const char* set) {
  for (const Index query_len : {3, 20}) {
    Problem<T> p({1, 1, query_len, 1300, 4, 4});
    p.a.scale = 0;
    query_len < 8 ? run_chunks(p.a, k) : run_blocks(p.a, k, k.block_rows(p.a));
    for (const Index key : p.counts[kArgmax]) check(key == 0, set, "key of a tie", p.shape, double(key), 0);
  }
}

const Shape kShapes[] = {
    {1, 1, 1, 1, 1, 1},
    {1, 1, 1, 0, 4, 4},
    {2, 2, 3, 5, 2, 7},
    {2, 1, 7, 8, 3, 9, 0, 1},
    {1, 1, 15, 16, 15, 17, 0, 1, Joined::array},
    {4, 2, 17, 63, 16, 15, kUnbounded, 0, Joined::array, true},
    {3, 1, 64, 65, 33, 31, 0, 1, Joined::nothing, true, 0, true},
    {2, 2, 65, 64, 64, 64, 0, -1, Joined::nothing, false, 3},
    {1, 1, 130, 259, 8, 65, 0, 129},
    {6, 2, 2, 1030, 24, 40, 0, 1028, Joined::array, false, 0, true},
    {1, 1, 3, 700, 128, 128, kUnbounded, 0, Joined::nothing, true},
    {4, 2, 41, 700, 16, 17, 0, 500, Joined::ranges},
    {4, 2, 3, 700, 16, 17, 0, 500, Joined::ranges},
    {2, 1, 40, 700, 16, 17, 0, 500, Joined::same},
    {2, 1, 3, 700, 16, 17, 0, 500, Joined::same},
    {4, 2, 41, 700, 16, 17, 0, 200, Joined::either},  // strips of two heads
    {2, 2, 3, 700, 16, 17, 0, 200, Joined::either},
    {4, 2, 40, 300, 16, 17, 0, 260, Joined::array, true, 0, false, true, true, true},
    {4, 2, 3, 300, 16, 17, 0, 260, Joined::array, true, 0, false, true, true, true},
    {2, 1, 40, 300, 24, 33, 0, 260, Joined::nothing, true, 1, true, false, false, true, ElementType::float16},
    {2, 1, 3, 300, 24, 33, 0, 260, Joined::nothing, true, 1, true, false, true, false, ElementType::float16},
    {2, 1, 40, 300, 24, 33, 0, 260, Joined::nothing, true, 1, true, true, false, false, ElementType::bfloat16},
    {2, 1, 3, 300, 24, 33, 0, 260, Joined::nothing, true, 1, true, false, false, true, ElementType::bfloat16},
    {1, 1, 40, 530, 512, 1, 0, 490},  // rows 2 KiB apart
};

template <class T>
void test_all(const TypedKernels& k, const char* set) {
  for (const Shape& shape : kShapes) test_shape<T>(shape, k, set);
  test_hidden_nan<T>(k, set);
  test_ties<T>(k, set);
}

}  // namespace
}  // namespace headwise::testing

int main() {
  using namespace headwise;
  int count, run = 0;
  testing::test_short_floats();
  const Kernels* const* tables = built_kernels(&count);
  for (int t = 0; t < count; ++t) {
    if (!runs_here(*tables[t])) {
      std::printf("%s: not on this machine\n", tables[t]->name);
      continue;
    }
    testing::test_all<float>(tables[t]->float32, tables[t]->name);
    testing::test_all<double>(tables[t]->float64, tables[t]->name);
    std::printf("%s: done\n", tables[t]->name);
    ++run;
  }
  std::printf("%d instruction sets, %d failures\n", run, testing::failures);
  return testing::failures || !run ? EXIT_FAILURE : EXIT_SUCCESS;
}
