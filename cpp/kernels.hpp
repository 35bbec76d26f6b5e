// The kernels of one instruction set, as a table, and the choice among tables.
#pragma once

#include "collection.hpp"

namespace headwise {

struct TypedKernels {
  // Many queries: rows of one block, scratch for so many rows, and the kernel. `next`, which may be empty, is the range
  // that this thread will probably be given next: memory is asked for it.
  Index (*block_rows)(const Arguments&);
  Index (*block_scratch)(const Arguments&, Index rows);
  void (*attend_block)(const Arguments&, const RowRange&, const RowRange& next, char* scratch);
  // Few queries: all rows of a key/value head against one chunk of keys, then the merge.
  Index (*chunk_keys)(const Arguments&);
  Index (*chunk_scratch)(const Arguments&);
  Index (*partial_bytes)(const Arguments&);
  void (*attend_chunk)(const Arguments&, const RowRange&, Index chunk, char* partial, char* scratch);
  void (*merge_chunks)(const Arguments&, const RowRange&, Index chunks, char* partials);
  // Exact weights of a rectangle of at most so many queries of one head, and scratch for it. Needs the statistics
  // kRowMaximum and kRowTotal.
  Index (*weights_scratch)(const Arguments&, Index rows);
  void (*weights)(const Arguments&, const Rectangle&, char* scratch);
  // The second pass over a band of queries, or both in one, scratch for a band of so many key/value heads, and how many
  // queries see each key (viewers[kv_len]) and each distance (pairs[query_len + kv_len - 1], at query - key + kv_len -
  // 1) of one head; the counts hold zeros at first. The first needs the statistics kRowMaximum and kRowTotal.
  Index (*collect_scratch)(const Arguments&, const Collection&, Index kv_heads);
  void (*collect)(const Arguments&, const Collection&, const Band&, char* scratch);
  void (*count_viewers)(const Arguments&, Index item, Index head, Index* viewers, Index* pairs);
  bool (*heads_see_alike)(const Arguments&);
  // 2^x for n numbers of at most 0, and tanh x, n a multiple of 64: for the tests of their errors.
  void (*exp2)(const void* x, void* y, Index n);
  void (*tanh)(const void* x, void* y, Index n);
};

struct Kernels {
  const char* name;
  TypedKernels float32, float64;
  [[gnu::always_inline]] const TypedKernels& of(ElementType type) const {
    return type == ElementType::float64 ? float64 : float32;
  }
};

// Instruction sets built into this library, best first, and whether this machine can run one.
const Kernels* const* built_kernels(int* count);
bool runs_here(const Kernels& kernels);

}  // namespace headwise
