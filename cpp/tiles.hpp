// Everything about memory layout: elements in, tiles of keys and values, and packed queries.
// Strides of any sign, misaligned data, the other byte order and other precisions end here; behind this file
// there are only contiguous rows of the working precision.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

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
  bool counts() const { return !base_; }

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

template <class T>
constexpr ElementType element_type = std::is_same_v<T, double>     ? ElementType::float64
                                     : std::is_same_v<T, Float16>  ? ElementType::float16
                                     : std::is_same_v<T, BFloat16> ? ElementType::bfloat16
                                                                   : ElementType::float32;

// Calls `use` with a zero of the type that the operand's elements have, one of those that go with a working precision.
template <class T, class Use>
inline auto with_type(ElementType type, Use use) {
  if constexpr (sizeof(T) == 4) {
    if (type == ElementType::float16) return use(Float16{});
    if (type == ElementType::bfloat16) return use(BFloat16{});
  }
  return use(T());
}

// A vector of numbers as they lie in memory, 16-bit ones widened.
template <class S, class Source>
inline typename S::Vector load_wide(const Source* numbers) {
  if constexpr (std::is_same_v<Source, typename S::Element>) {
    return S::load(numbers);
  } else if constexpr (requires { S::widen(numbers); }) {
    return S::widen(numbers);
  } else {
    typename S::Element lane[S::width];
    for (int k = 0; k < S::width; ++k) lane[k] = widened(numbers[k]);
    return S::load(lane);
  }
}

// The first `count` numbers of a vector; behind them zeros.
template <class S, class Source>
inline typename S::Vector load_some(const Source* numbers, Index count) {
  if (count >= S::width) return load_wide<S>(numbers);
  Source lane[S::width] = {};
  std::memcpy(lane, numbers, count * sizeof(Source));
  return load_wide<S>(lane);
}

// Stores a vector as such numbers, 16-bit ones rounded.
template <class S, class Result>
inline void store_narrow(Result* numbers, typename S::Vector lanes) {
  if constexpr (std::is_same_v<Result, typename S::Element>) {
    S::store(numbers, lanes);
  } else if constexpr (requires { S::narrow(numbers, lanes); }) {
    S::narrow(numbers, lanes);
  } else {
    typename S::Element lane[S::width];
    S::store(lane, lanes);
    for (int k = 0; k < S::width; ++k) narrow(lane[k], numbers[k]);
  }
}

// Whether a row is an array of such numbers, as the compiler would have it.
template <class T>
inline bool lies_as(const Strided& operand, const char* row) {
  return operand.type == element_type<T> && !operand.swapped && operand.column == Index(sizeof(T)) &&
         reinterpret_cast<std::uintptr_t>(row) % alignof(T) == 0;
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

// Whether all rows are such arrays, a whole number of elements apart.
template <class T>
inline bool all_lie_as(const Strided& operand, const char* first) {
  return lies_as<T>(operand, first) && operand.row % Index(sizeof(T)) == 0;
}

// Whether tiles of rows are read where they lie.
template <class T>
inline bool usable_in_place(const Strided& source, const char* first, bool reused) {
  const bool aliased = reused && source.row % 2048 == 0 && source.row != 0;
  return all_lie_as<T>(source, first) && !aliased;
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

// `count` numbers of one row, from column `first` on, in the working precision; behind them zeros.
template <class S>
inline typename S::Vector load_part(const Strided& source, const char* row, Index first, Index count) {
  using T = typename S::Element;
  return with_type<T>(source.type, [&](auto zero) {
    using Source = decltype(zero);
    if (lies_as<Source>(source, row)) return load_some<S>(reinterpret_cast<const Source*>(row) + first, count);
    T lane[S::width] = {};
    with_reader(source,
                [&](auto reader) { copy_row(reader, row + first * source.column, source.column, count, lane); });
    return S::load(lane);
  });
}

// The first `count` lanes to one row, from column `first` on, each as `layout` has it.
template <class S>
inline void store_part(const Strided& layout, char* row, Index first, Index count, typename S::Vector numbers) {
  with_type<typename S::Element>(layout.type, [&](auto zero) {
    using Result = decltype(zero);
    if (count == S::width && lies_as<Result>(layout, row))
      return store_narrow<S>(reinterpret_cast<Result*>(row) + first, numbers);
    Result lane[S::width];
    store_narrow<S>(lane, numbers);
    for (Index k = 0; k < count; ++k) std::memcpy(row + (first + k) * layout.column, lane + k, sizeof(Result));
  });
}

// Rows of keys or values where they lie, or copied.
template <class S>
inline Tile<typename S::Element> load_tile(const Strided& source, const char* first, Index count, Index width,
                                           bool reused, typename S::Element* scratch) {
  using T = typename S::Element;
  if (usable_in_place<T>(source, first, reused))
    return {reinterpret_cast<const T*>(first), source.row / Index(sizeof(T))};
  const Index stride = copied_stride<T>(width), whole = width / S::width * S::width;
  for (Index j = 0; j < count; ++j) {
    const char* row = first + j * source.row;
    T* copy = scratch + j * stride;
    with_type<T>(source.type, [&](auto zero) {
      using Source = decltype(zero);
      const bool vectors = lies_as<Source>(source, row);
      if (vectors)
        for (Index d = 0; d < whole; d += S::width)
          S::store(copy + d, load_wide<S>(reinterpret_cast<const Source*>(row) + d));
      const Index done = vectors ? whole : 0;
      with_reader(source, [&](auto reader) {
        copy_row(reader, row + done * source.column, source.column, width - done, copy + done);
      });
    });
  }
  return {scratch, stride};
}

// Calls `use` with a tile that is read once or twice: where it lies, if at all possible, also with 16-bit numbers.
template <class S, class Use>
inline void with_tile(const Strided& source, const char* first, Index count, Index width, typename S::Element* scratch,
                      Use use) {
  with_type<typename S::Element>(source.type, [&](auto zero) {
    using Source = decltype(zero);
    if (all_lie_as<Source>(source, first))
      return use(Tile<Source>{reinterpret_cast<const Source*>(first), source.row / Index(sizeof(Source))});
    use(load_tile<S>(source, first, count, width, false, scratch));
  });
}

// The first or second half of two vectors, their lanes taken in turn.
template <class S, int half, int... k>
inline typename S::Vector interleave(typename S::Vector a, typename S::Vector b, std::integer_sequence<int, k...>) {
  return __builtin_shufflevector(a, b, (half * S::width / 2 + k / 2 + k % 2 * S::width)...);
}

// Rows become columns: with row k and row k + width/2 interleaved, the lanes' numbers turn by one binary digit.
template <class S>
[[gnu::always_inline]] inline void transpose(typename S::Vector (&square)[S::width]) {
  if constexpr (requires { S::transpose(square); }) {
    S::transpose(square);
  } else if constexpr (S::width > 1) {
    constexpr auto lanes = std::make_integer_sequence<int, S::width>();
    for (int digit = 1; digit < S::width; digit *= 2) {
      typename S::Vector turned[S::width];
      for (int k = 0; k < S::width / 2; ++k) {
        turned[2 * k] = interleave<S, 0>(square[k], square[k + S::width / 2], lanes);
        turned[2 * k + 1] = interleave<S, 1>(square[k], square[k + S::width / 2], lanes);
      }
      for (int k = 0; k < S::width; ++k) square[k] = turned[k];
    }
  }
}

// Whether all rows of a whole vector are arrays of such numbers.
template <class S, class Source>
inline bool whole_in_place(const Strided& operand, const char* const* rows, Index count) {
  bool all = count >= S::width;
  for (Index r = 0; r < S::width && all; ++r) all = lies_as<Source>(operand, rows[r]);
  return all;
}

// Rows side by side, times `factor`: number d of row r goes to packed[d · lanes + r]. At most one vector of rows; lanes
// without a row get zeros.
template <class S>
inline void pack_rows(const Strided& source, const char* const* rows, Index count, Index width,
                      typename S::Element factor, typename S::Element* packed, Index lanes) {
  with_type<typename S::Element>(source.type, [&](auto zero) {
    using Source = decltype(zero);
    const bool in_place = whole_in_place<S, Source>(source, rows, count);
    for (Index d = 0; d < width; d += S::width) {
      const Index part = smaller<Index>(S::width, width - d);
      typename S::Vector square[S::width];
      if (in_place && part == S::width) {
        for (int k = 0; k < S::width; ++k) square[k] = load_wide<S>(reinterpret_cast<const Source*>(rows[k]) + d);
      } else {
        for (int k = 0; k < S::width; ++k) square[k] = k < count ? load_part<S>(source, rows[k], d, part) : S::set(0);
      }
      transpose<S>(square);
      for (int k = 0; k < S::width; ++k)
        if (k < part) S::store(packed + (d + k) * lanes, S::mul(square[k], S::set(factor)));
    }
  });
}

// The way back: each number as `each` makes it.
template <class S, class Each>
inline void unpack_rows(const typename S::Element* packed, Index lanes, const Strided& layout, char* const* rows,
                        Index count, Index width, Each& each) {
  with_type<typename S::Element>(layout.type, [&](auto zero) {
    using Result = decltype(zero);
    const bool in_place = whole_in_place<S, Result>(layout, rows, count);
    for (Index d = 0; d < width; d += S::width) {
      const Index part = smaller<Index>(S::width, width - d);
      typename S::Vector square[S::width];
      for (int k = 0; k < S::width; ++k) square[k] = k < part ? each(S::load(packed + (d + k) * lanes)) : S::set(0);
      transpose<S>(square);
      if (in_place && part == S::width) {
        for (int k = 0; k < S::width; ++k) store_narrow<S>(reinterpret_cast<Result*>(rows[k]) + d, square[k]);
      } else {
        for (Index k = 0; k < smaller<Index>(S::width, count); ++k) store_part<S>(layout, rows[k], d, part, square[k]);
      }
    }
  });
}

}  // namespace
}  // namespace headwise
