// Which instruction sets are built in, and which of them this machine can run.
#include <cstring>

#include "kernels.hpp"

namespace headwise {

#if defined(__x86_64__)
extern const Kernels kernels_avx512, kernels_avx2;
#elif defined(__aarch64__)
extern const Kernels kernels_neon;
#endif
extern const Kernels kernels_baseline, kernels_scalar;

const Kernels* const* built_kernels(int* count) {
  static const Kernels* const tables[] = {
#if defined(__x86_64__)
      &kernels_avx512, &kernels_avx2,
#elif defined(__aarch64__)
      &kernels_neon,
#endif
      &kernels_baseline, &kernels_scalar};
  *count = sizeof tables / sizeof *tables;
  return tables;
}

bool runs_here(const Kernels& kernels) {
#if defined(__x86_64__)
  if (!std::strcmp(kernels.name, "avx512")) return __builtin_cpu_supports("avx512f");
  if (!std::strcmp(kernels.name, "avx2"))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#endif
  return true;
}

}  // namespace headwise
