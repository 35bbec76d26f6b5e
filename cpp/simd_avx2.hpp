// Vectors of 32 bytes: x86-64 with AVX2 and fused multiply-add.
#pragma once

#include <immintrin.h>

namespace headwise {
namespace {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using Element = float;
  using Vector = __m256;
  using Mask = __m256;

  static constexpr int width = 8;
  static constexpr bool fused = true;     // fma rounds once
  static constexpr int panel_height = 6;  // 6 × 2 sums, 2 vectors and a broadcast in 16 registers

  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
  static Vector set(float x) { return _mm256_set1_ps(x); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static Mask less(Vector a, Vector b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Vector select(Mask m, Vector yes, Vector no) { return _mm256_blendv_ps(no, yes, m); }
  static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }  // b where either is NaN
  static Vector abs(Vector a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static Vector to_exponent(Vector a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23)); }
  static float sum(Vector v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
};

template <>
struct Simd<double> {
  using Element = double;
  using Vector = __m256d;
  using Mask = __m256d;

  static constexpr int width = 4;
  static constexpr bool fused = true;  // fma rounds once
  static constexpr int panel_height = 6;

  static Vector load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Vector v) { _mm256_storeu_pd(p, v); }
  static Vector set(double x) { return _mm256_set1_pd(x); }
  static Vector add(Vector a, Vector b) { return _mm256_add_pd(a, b); }
  static Vector sub(Vector a, Vector b) { return _mm256_sub_pd(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm256_mul_pd(a, b); }
  static Vector div(Vector a, Vector b) { return _mm256_div_pd(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
  static Mask less(Vector a, Vector b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static Vector select(Mask m, Vector yes, Vector no) { return _mm256_blendv_pd(no, yes, m); }
  static Vector max(Vector a, Vector b) { return _mm256_max_pd(a, b); }
  static Vector abs(Vector a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  static Vector to_exponent(Vector a) { return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a), 52)); }
  static double sum(Vector v) {
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
  }
};

}  // namespace
}  // namespace headwise
