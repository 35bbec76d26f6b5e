// The thread pool under load: many calls at once, each sharing out a kernel's blocks. Made for the thread sanitizer.
#include "../../src/headwise/_binding/pool.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "problem.hpp"

namespace headwise::testing {
namespace {

constexpr Shape kShape{4, 2, 96, 160, 16, 16, 0, 64};

// One call as the boundary makes it: blocks from a counter, in this thread and the pool's.
void attend(const Problem<float>& p, const TypedKernels& k) {
  const Index rows = 64, blocks = (p.a.rows() + rows - 1) / rows;
  std::atomic<Index> next{0};
  Pool::instance().run(
      2, false,
      [&] {
        const ThreadScratch scratch(std::size_t(k.block_scratch(p.a, rows)));
        for (Index n; (n = next.fetch_add(1)) < blocks * p.a.num_kv_heads;) {
          const Index begin = n % blocks * rows, end = begin + rows < p.a.rows() ? begin + rows : p.a.rows();
          k.attend_block(p.a, {0, n / blocks, begin, end}, {}, scratch.data());
        }
      },
      [] {});
}

}  // namespace
}  // namespace headwise::testing

int main() {
  using namespace headwise;
  using namespace headwise::testing;
  int count;
  const Kernels* const* tables = built_kernels(&count);
  int best = 0;
  while (!runs_here(*tables[best])) ++best;
  const TypedKernels& k = tables[best]->float32;
  Problem<float> expected(kShape);
  attend(expected, k);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t)
    callers.emplace_back([&] {
      for (int n = 0; n < 20; ++n) {
        Problem<float> p(kShape);
        attend(p, k);
        if (p.output.bytes != expected.output.bytes) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  std::printf("160 calls from 8 threads, %d wrong\n", wrong.load());
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
