// Vectors of one element. The scalar reference instruction set is built from it, and so are the few places where
// the other kernels handle a single row.
#pragma once

#include <cstdint>
#include <cstring>

namespace headwise {
namespace {

template <class T>
struct Scalar {
  using Element = T;
  using Vector = T;
  using Mask = bool;

  static constexpr int width = 1;
  static constexpr bool fused = false;  // fma rounds once
  static constexpr int panel_height = 4;

  static T load(const T* p) { return *p; }
  static void store(T* p, T v) { *p = v; }
  static T set(T x) { return x; }
  static T add(T a, T b) { return a + b; }
  static T sub(T a, T b) { return a - b; }
  static T mul(T a, T b) { return a * b; }
  static T div(T a, T b) { return a / b; }
  static T fma(T a, T b, T c) { return a * b + c; }
  static bool less(T a, T b) { return a < b; }
  static T select(bool m, T yes, T no) { return m ? yes : no; }
  static unsigned lanes(bool m) { return m; }
  static T max(T a, T b) { return a > b ? a : b; }  // b where either is NaN
  static T abs(T a) { return a < 0 ? -a : a; }
  static T sum(T v) { return v; }
  static T to_exponent(T a) {
    if constexpr (sizeof(T) == 4) {
      return shifted<std::uint32_t>(a, 23);
    } else {
      return shifted<std::uint64_t>(a, 52);
    }
  }

 private:
  template <class Bits>
  static T shifted(T a, int mantissa) {
    Bits bits;
    std::memcpy(&bits, &a, sizeof bits);
    bits <<= mantissa;
    std::memcpy(&a, &bits, sizeof bits);
    return a;
  }
};

}  // namespace
}  // namespace headwise
