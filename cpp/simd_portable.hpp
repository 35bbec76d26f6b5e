// Vectors of 16 bytes in the compiler's own vector extension: runs on any machine, without fused multiply-add.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace headwise {
namespace {

template <class T>
struct Integer;
template <>
struct Integer<float> {
  using type = std::int32_t;
};
template <>
struct Integer<double> {
  using type = std::int64_t;
};

template <class T>
struct Simd {
  using Element = T;
  using Bits = typename Integer<T>::type;
  typedef T Vector __attribute__((vector_size(16)));
  typedef Bits Mask __attribute__((vector_size(16)));

  static constexpr int width = 16 / sizeof(T);
  static constexpr bool fused = false;    // fma rounds once
  static constexpr int panel_height = 4;  // broadcast operands held against two vectors in 16 registers

  static Vector load(const T* p) {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(T* p, Vector v) { std::memcpy(p, &v, sizeof v); }
  static Vector set(T x) { return x - Vector{}; }
  static Vector add(Vector a, Vector b) { return a + b; }
  static Vector sub(Vector a, Vector b) { return a - b; }
  static Vector mul(Vector a, Vector b) { return a * b; }
  static Vector div(Vector a, Vector b) { return a / b; }
  static Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }
  static Mask less(Vector a, Vector b) { return a < b; }
  static Vector select(Mask m, Vector yes, Vector no) { return m ? yes : no; }
  static unsigned lanes(Mask m) {  // one bit each
    unsigned bits = 0;
    for (int k = 0; k < width; ++k) bits |= unsigned(m[k] != 0) << k;
    return bits;
  }
  // The larger; b where either is NaN, as on x86.
  static Vector max(Vector a, Vector b) { return a > b ? a : b; }
  static Vector abs(Vector a) { return max(a, -a); }
  // The bits moved left by the width of the mantissa.
  static Vector to_exponent(Vector a) {
    constexpr int mantissa = sizeof(T) == 4 ? 23 : 52;
    typedef std::make_unsigned_t<Bits> Unsigned __attribute__((vector_size(16)));
    return (Vector)((Unsigned)a << mantissa);
  }
  static T sum(Vector v) {
    for (int half = width / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) v[k] += v[k + half];
    return v[0];
  }
};

}  // namespace
}  // namespace headwise
