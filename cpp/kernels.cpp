// Compiled once for each instruction set, with HEADWISE_TABLE and HEADWISE_SIMD set by the build. Everything but the
// table is in an anonymous namespace or always inlined, so that no code of one instruction set can be linked into
// another.
#include "kernels.hpp"

#include HEADWISE_SIMD
#include "counting.hpp"
#include "second_pass.hpp"

namespace headwise {
namespace {

template <class S>
void exp2_many(const void* x, void* y, Index n) {
  using T = typename S::Element;
  const Exponent<S> exponent(1);
  for (Index k = 0; k < n; k += S::width)
    S::store(static_cast<T*>(y) + k, exp2<S>(exponent.clip(S::load(static_cast<const T*>(x) + k)), exponent));
}

template <class S>
void tanh_many(const void* x, void* y, Index n) {
  using T = typename S::Element;
  for (Index k = 0; k < n; k += S::width)
    S::store(static_cast<T*>(y) + k, tanh<S>(S::load(static_cast<const T*>(x) + k)));
}

template <class S>
constexpr TypedKernels typed_kernels() {
  return {block_rows<S>,
          block_scratch<S>,
          attend_block<S>,
          chunk_keys,
          chunk_scratch<S>,
          partial_bytes<S>,
          attend_chunk<S>,
          merge_chunks<S>,
          weights_scratch<S>,
          weights_rectangle<S>,
          collect_scratch<S>,
          collect<S>,
          count_viewers<typename S::Element>,
          heads_see_alike,
          exp2_many<S>,
          tanh_many<S>};
}

}  // namespace

#define HEADWISE_QUOTED(name) #name
#define HEADWISE_NAME(name) HEADWISE_QUOTED(name)
#define HEADWISE_JOINED(a, b) a##b
#define HEADWISE_SYMBOL(name) HEADWISE_JOINED(kernels_, name)

extern const Kernels HEADWISE_SYMBOL(HEADWISE_TABLE);
const Kernels HEADWISE_SYMBOL(HEADWISE_TABLE) = {HEADWISE_NAME(HEADWISE_TABLE), typed_kernels<Simd<float>>(),
                                                 typed_kernels<Simd<double>>()};

}  // namespace headwise
