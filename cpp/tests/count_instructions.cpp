// Runs one small case so many times, for a tool that counts instructions: what two numbers of runs differ by is what a
// run costs.
//
//     count_instructions avx2 prefill|decode|watched REPEATS
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "problem.hpp"

namespace headwise::testing {
namespace {

// A causal prefill, a step of decoding with grouped heads, and short rows with every statistic.
constexpr Shape kPrefill{2, 2, 96, 96, 64, 64, 0}, kDecode{8, 2, 1, 600, 64, 64}, kWatched{2, 2, 48, 48, 32, 32, 0};

const TypedKernels* kernels_named(const char* name) {
  int count;
  const Kernels* const* tables = built_kernels(&count);
  for (int k = 0; k < count; ++k)
    if (!std::strcmp(tables[k]->name, name) && runs_here(*tables[k])) return &tables[k]->float32;
  return nullptr;
}

void run(const Arguments& a, const TypedKernels& k, std::vector<char>& scratch, std::vector<char>& partials) {
  const Index chunks = (a.kv_len + k.chunk_keys(a) - 1) / k.chunk_keys(a);
  for (Index head = 0; head < a.num_kv_heads; ++head) {
    const RowRange range{0, head, 0, a.rows()};
    if (a.rows() >= kFewRows) {
      k.attend_block(a, range, {}, scratch.data());
      continue;
    }
    for (Index chunk = 0; chunk < chunks; ++chunk)
      k.attend_chunk(a, range, chunk, partials.data() + chunk * k.partial_bytes(a), scratch.data());
    k.merge_chunks(a, range, chunks, partials.data());
  }
}

}  // namespace
}  // namespace headwise::testing

int main(int count, char** arguments) {
  using namespace headwise;
  using namespace headwise::testing;
  const TypedKernels* k = count == 4 ? kernels_named(arguments[1]) : nullptr;
  const std::string what = count == 4 ? arguments[2] : "";
  if (!k || (what != "prefill" && what != "decode" && what != "watched")) return EXIT_FAILURE;
  Problem<float> p(what == "prefill" ? kPrefill : what == "decode" ? kDecode : kWatched);
  if (what != "watched")
    for (void*& statistic : p.a.statistics) statistic = nullptr;
  const Index chunks = (p.a.kv_len + k->chunk_keys(p.a) - 1) / k->chunk_keys(p.a);
  std::vector<char> scratch(1 << 20), partials(std::size_t(k->partial_bytes(p.a) * chunks));
  for (int n = std::atoi(arguments[3]); n > 0; --n) run(p.a, *k, scratch, partials);
  return EXIT_SUCCESS;
}
