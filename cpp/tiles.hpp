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

// Whether the operand lies in memory as an array of such 16-bit numbers.
template <class Half>
inline bool usable_halves(const Strided& source, const char* first) {
  constexpr auto type = std::is_same_v<Half, Float16> ? ElementType::float16 : ElementType::bfloat16;
  return source.type == type && !source.swapped && source.column == 2 && source.row % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(first) % alignof(Half) == 0;
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

// Calls `use` with a tile that is read once or twice: where it lies, if at all possible, also with 16-bit numbers.
template <class T, class Use>
inline void with_tile(const Strided& source, const char* first, Index count, Index width, T* scratch, Use use) {
  if constexpr (sizeof(T) == 4) {
    if (usable_halves<Float16>(source, first))
      return use(Tile<Float16>{reinterpret_cast<const Float16*>(first), source.row / 2});
    if (usable_halves<BFloat16>(source, first))
      return use(Tile<BFloat16>{reinterpret_cast<const BFloat16*>(first), source.row / 2});
  }
  use(load_tile(source, first, count, width, false, scratch));
}

// `count` numbers of one row, from column `first` on, in the working precision; behind them zeros.
template <class S>
inline typename S::Vector load_part(const Strided& source, const char* row, Index first, Index count) {
  using T = typename S::Element;
  const char* place = row + first * source.column;
  if (count == S::width && usable_in_place<T>(source, row, false)) return S::load(reinterpret_cast<const T*>(place));
  T lane[S::width] = {};
  with_reader(source, [&](auto reader) { copy_row(reader, place, source.column, count, lane); });
  return S::load(lane);
}

// The first `count` lanes to one row, from column `first` on, each as `layout` has it.
template <class S>
inline void store_part(const Strided& layout, char* row, Index first, Index count, typename S::Vector numbers) {
  using T = typename S::Element;
  char* place = row + first * layout.column;
  if (count == S::width && usable_in_place<T>(layout, row, false))
    return S::store(reinterpret_cast<T*>(place), numbers);
  T lane[S::width];
  S::store(lane, numbers);
  with_rounding<T>(layout.type, [&](auto round) {
    for (Index k = 0; k < count; ++k) {
      const auto rounded = round(lane[k]);
      std::memcpy(place + k * layout.column, &rounded, sizeof rounded);
    }
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

// Whether rows of the working precision can be read and written as vectors.
template <class T>
inline bool all_in_place(const Strided& operand, const char* const* rows, Index count) {
  bool all = contiguous_columns<T>(operand);
  for (Index r = 0; r < count; ++r) all &= reinterpret_cast<std::uintptr_t>(rows[r]) % alignof(T) == 0;
  return all;
}

// Rows side by side, times `factor`: number d of row r goes to packed[d · lanes + r]. Lanes without a row get zeros.
template <class S>
inline void pack_rows(const Strided& source, const char* const* rows, Index count, Index width,
                      typename S::Element factor, typename S::Element* packed, Index lanes) {
  using T = typename S::Element;
  const bool in_place = all_in_place<T>(source, rows, count);
  for (Index r = 0; r < lanes; r += S::width)
    for (Index d = 0; d < width; d += S::width) {
      const Index part = smaller<Index>(S::width, width - d);
      const bool whole = part == S::width && count - r >= S::width;
      typename S::Vector square[S::width];
      if (in_place && whole) {
        for (int k = 0; k < S::width; ++k) square[k] = S::load(reinterpret_cast<const T*>(rows[r + k]) + d);
      } else {
        for (int k = 0; k < S::width; ++k)
          square[k] = r + k < count ? load_part<S>(source, rows[r + k], d, part) : S::set(0);
      }
      transpose<S>(square);
      for (int k = 0; k < S::width; ++k)
        if (whole || k < part) S::store(packed + (d + k) * lanes + r, S::mul(square[k], S::set(factor)));
    }
}

// The way back: rows that lie side by side are written one by one.
template <class S>
inline void unpack_rows(const typename S::Element* packed, Index lanes, const Strided& layout, char* const* rows,
                        Index count, Index width) {
  using T = typename S::Element;
  const bool in_place = all_in_place<T>(layout, rows, count);
  for (Index r = 0; r < count; r += S::width)
    for (Index d = 0; d < width; d += S::width) {
      const Index part = smaller<Index>(S::width, width - d);
      const bool whole = in_place && part == S::width && count - r >= S::width;
      typename S::Vector square[S::width];
      for (int k = 0; k < S::width; ++k)
        square[k] = whole || k < part ? S::load(packed + (d + k) * lanes + r) : S::set(0);
      transpose<S>(square);
      if (whole) {
        for (int k = 0; k < S::width; ++k) S::store(reinterpret_cast<T*>(rows[r + k]) + d, square[k]);
      } else {
        for (Index k = 0; k < smaller<Index>(S::width, count - r); ++k)
          store_part<S>(layout, rows[r + k], d, part, square[k]);
      }
    }
}

}  // namespace
}  // namespace headwise
