// Everything about memory layout: elements in, tiles of keys and values, and packed queries.
// Strides of any sign, misaligned data, the other byte order and other precisions end here; behind this file
// there are only contiguous rows of the working precision.
#pragma once

#include <cstring>

#include "short_floats.hpp"

namespace headwise {
namespace {

template <class A>
inline A smaller(A a, A b) {
  return b < a ? b : a;
}
template <class A>
inline A larger(A a, A b) {
  return a < b ? b : a;
}

// Hands out pieces of a buffer, each on a cache line of its own; with a null buffer it only counts.
class Scratch {
 public:
  explicit Scratch(char* base) : base_(base) {}
  template <class A>
  A* take(Index count) {
    A* piece = base_ ? reinterpret_cast<A*>(base_ + used_) : nullptr;
    used_ += (count * Index(sizeof(A)) + 63) / 64 * 64;
    return piece;
  }
  Index used() const { return used_; }

 private:
  char* base_;
  Index used_ = 0;
};

template <class Source, bool swapped>
struct Reader {
  static constexpr Index size = sizeof(Source);
  static Source read(const char* p) {
    unsigned char bytes[sizeof(Source)];
    std::memcpy(bytes, p, sizeof bytes);
    if constexpr (swapped) {
      for (unsigned k = 0; k < sizeof bytes / 2; ++k) {
        const unsigned char other = bytes[sizeof bytes - 1 - k];
        bytes[sizeof bytes - 1 - k] = bytes[k];
        bytes[k] = other;
      }
    }
    Source x;
    std::memcpy(&x, bytes, sizeof x);
    return x;
  }
};

// 16-bit numbers, widened as they are read.
template <float (*widen)(std::uint16_t), bool swapped>
struct ShortReader {
  static constexpr Index size = 2;
  static float read(const char* p) { return widen(Reader<std::uint16_t, swapped>::read(p)); }
};

// Calls `use` with the reader of the operand's elements, chosen once and not for each element.
template <class Use>
inline void with_reader(const Strided& source, Use use) {
  switch (source.type) {
    case ElementType::float32:
      return source.swapped ? use(Reader<float, true>{}) : use(Reader<float, false>{});
    case ElementType::float64:
      return source.swapped ? use(Reader<double, true>{}) : use(Reader<double, false>{});
    case ElementType::float16:
      return source.swapped ? use(ShortReader<from_float16, true>{}) : use(ShortReader<from_float16, false>{});
    case ElementType::bfloat16:
      return source.swapped ? use(ShortReader<from_bfloat16, true>{}) : use(ShortReader<from_bfloat16, false>{});
  }
}

// Calls `use` with a function that turns a number of the working precision into one of the result's.
template <class T, class Use>
inline auto with_rounding(ElementType type, Use use) {
  if (type == ElementType::float16) return use([](T x) { return to_float16(float(x)); });
  if (type == ElementType::bfloat16) return use([](T x) { return to_bfloat16(float(x)); });
  return use([](T x) { return x; });
}

template <class T>
constexpr ElementType element_type = sizeof(T) == 4 ? ElementType::float32 : ElementType::float64;

template <class T>
inline bool contiguous_columns(const Strided& source) {
  return source.type == element_type<T> && !source.swapped && source.column == Index(sizeof(T));
}

// Rows of keys or values as the products read them.
template <class T>
struct Tile {
  const T* data;
  Index stride;  // elements from one row to the next
};

// Rows a multiple of 2 KiB apart share a few sets of the first cache, so they are copied, too, a little apart.
template <class T>
inline Index copied_stride(Index width) {
  const Index line = 64 / Index(sizeof(T));
  return width * Index(sizeof(T)) % 2048 == 0 ? width + line : width;
}

template <class T>
inline bool usable_in_place(const Strided& source, const char* first, bool reused) {
  const Index size = sizeof(T);
  const bool aliased = reused && source.row % 2048 == 0 && source.row != 0;
  return contiguous_columns<T>(source) && source.row % size == 0 && !aliased &&
         reinterpret_cast<std::uintptr_t>(first) % alignof(T) == 0;
}

// One row in the working precision. Adjacent elements have a loop of their own, which compilers turn into vectors.
template <class Read, class T>
inline void copy_row(Read reader, const char* row, Index column, Index width, T* copy) {
  if (column == Read::size) {
    for (Index d = 0; d < width; ++d) copy[d] = T(reader.read(row + d * Read::size));
  } else {
    for (Index d = 0; d < width; ++d) copy[d] = T(reader.read(row + d * column));
  }
}

template <class T>
inline Tile<T> load_tile(const Strided& source, const char* first, Index count, Index width, bool reused, T* scratch) {
  if (usable_in_place<T>(source, first, reused))
    return {reinterpret_cast<const T*>(first), source.row / Index(sizeof(T))};
  const Index stride = copied_stride<T>(width);
  for (Index j = 0; j < count; ++j) {
    const char* row = first + j * source.row;
    T* copy = scratch + j * stride;
    if (contiguous_columns<T>(source)) {
      std::memcpy(copy, row, width * sizeof(T));
    } else {
      with_reader(source, [&](auto reader) { copy_row(reader, row, source.column, width, copy); });
    }
  }
  return {scratch, stride};
}

// One query row times `factor`, to every `step`-th element of `packed`.
template <class T>
inline void pack_query(const Strided& query, const char* row, Index width, T factor, T* packed, Index step) {
  with_reader(query, [&](auto reader) {
    for (Index d = 0; d < width; ++d) packed[d * step] = T(reader.read(row + d * query.column)) * factor;
  });
}

}  // namespace
}  // namespace headwise
