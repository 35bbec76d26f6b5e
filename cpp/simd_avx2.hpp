// Vectors of 32 bytes: x86-64 with AVX2, fused multiply-add and conversions from float16.
#pragma once

#include <immintrin.h>

#include "short_floats.hpp"
#include "shuffles.hpp"

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
  static unsigned lanes(Mask m) { return unsigned(_mm256_movemask_ps(m)); }  // one bit each
  static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }      // b where either is NaN
  static Vector abs(Vector a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static Vector to_exponent(Vector a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23)); }
  // Lanes k and k + 2 of each half, both sums, then the halves.
  static float sum(Vector v) {
    v = add(v, _mm256_permute_ps(v, 0x4e));
    v = add(v, _mm256_permute_ps(v, 0xb1));
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
  }
  // The sum of each of 8 vectors, in the same order. Two vectors become one whose lanes hold sums of each in turn.
  static Vector sum_each(Vector (&v)[8]) {
    const Vector a = sum_fours(v), b = sum_fours(v + 4);
    return add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }
  // Rows become columns: squares of 4 within the halves, then the halves themselves.
  static void transpose(Vector (&v)[8]) {
    for (int k = 0; k < 8; k += 4) turn_fours(v + k);
    for (int k = 0; k < 4; ++k) {
      const Vector low = _mm256_permute2f128_ps(v[k], v[k + 4], 0x20);
      v[k + 4] = _mm256_permute2f128_ps(v[k], v[k + 4], 0x31);
      v[k] = low;
    }
  }
  static Vector widen(const Float16* p) { return _mm256_cvtph_ps(halves(p)); }
  static Vector widen(const BFloat16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(p)), 16));
  }
  static void narrow(Float16* p, Vector v) { put_halves(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
  static void narrow(BFloat16* p, Vector v) {
    const __m256i bits = _mm256_castps_si256(v),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(kept, kept), 0x08);
    put_halves(p, _mm256_castsi256_si128(packed));
  }

 private:
  static void put_halves(void* p, __m128i bits) { _mm_storeu_si128(static_cast<__m128i*>(p), bits); }
  static __m128i halves(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
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
  static unsigned lanes(Mask m) { return unsigned(_mm256_movemask_pd(m)); }  // one bit each
  static Vector max(Vector a, Vector b) { return _mm256_max_pd(a, b); }
  static Vector abs(Vector a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  static Vector to_exponent(Vector a) { return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(a), 52)); }
  static double sum(Vector v) {
    v = add(v, _mm256_permute_pd(v, 0x5));
    return _mm_cvtsd_f64(_mm_add_sd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));
  }
  static Vector sum_each(Vector (&v)[4]) {
    for (int k = 0; k < 4; k += 2) v[k] = add(_mm256_unpacklo_pd(v[k], v[k + 1]), _mm256_unpackhi_pd(v[k], v[k + 1]));
    return add(_mm256_permute2f128_pd(v[0], v[2], 0x20), _mm256_permute2f128_pd(v[0], v[2], 0x31));
  }
};

}  // namespace
}  // namespace headwise
