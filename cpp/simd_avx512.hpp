// Vectors of 64 bytes: x86-64 with AVX-512 F.
#pragma once

#include <immintrin.h>

namespace headwise {
namespace {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using Element = float;
  using Vector = __m512;
  using Mask = __mmask16;

  static constexpr int width = 16;
  static constexpr bool fused = true;      // fma rounds once
  static constexpr int panel_height = 12;  // 12 × 2 sums, 2 vectors and broadcasts in 32 registers

  static Vector load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
  static Vector set(float x) { return _mm512_set1_ps(x); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static Mask less(Vector a, Vector b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Vector select(Mask m, Vector yes, Vector no) { return _mm512_mask_blend_ps(m, no, yes); }
  static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static Vector abs(Vector a) { return _mm512_abs_ps(a); }
  static Vector to_exponent(Vector a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23)); }
  static float sum(Vector v) { return _mm512_reduce_add_ps(v); }
};

template <>
struct Simd<double> {
  using Element = double;
  using Vector = __m512d;
  using Mask = __mmask8;

  static constexpr int width = 8;
  static constexpr bool fused = true;  // fma rounds once
  static constexpr int panel_height = 12;

  static Vector load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Vector v) { _mm512_storeu_pd(p, v); }
  static Vector set(double x) { return _mm512_set1_pd(x); }
  static Vector add(Vector a, Vector b) { return _mm512_add_pd(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm512_sub_pd(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm512_mul_pd(a, b); }
  static Vector div(Vector a, Vector b) { return _mm512_div_pd(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_pd(a, b, c); }
  static Mask less(Vector a, Vector b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Vector select(Mask m, Vector yes, Vector no) { return _mm512_mask_blend_pd(m, no, yes); }
  static Vector max(Vector a, Vector b) { return _mm512_max_pd(a, b); }
  static Vector abs(Vector a) { return _mm512_abs_pd(a); }
  static Vector to_exponent(Vector a) { return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(a), 52)); }
  static double sum(Vector v) { return _mm512_reduce_add_pd(v); }
};

}  // namespace
}  // namespace headwise
