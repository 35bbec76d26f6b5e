// Vectors of 64 bytes: x86-64 with AVX-512 F.
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
  static unsigned lanes(Mask m) { return m; }                            // one bit each
  static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static Vector abs(Vector a) { return _mm512_abs_ps(a); }
  static Vector to_exponent(Vector a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23)); }
  // Lanes k and k + 2 of each quarter, both sums, then the quarters likewise.
  static float sum(Vector v) {
    v = add(v, _mm512_permute_ps(v, 0x4e));
    v = add(v, _mm512_permute_ps(v, 0xb1));
    v = add(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    return _mm512_cvtss_f32(add(v, _mm512_shuffle_f32x4(v, v, 0xb1)));
  }
  // The sum of each of 16 vectors, in the same order. Two vectors become one whose lanes hold sums of each in turn.
  static Vector sum_each(Vector (&v)[16]) {
    const Vector a = sum_fours(v), b = sum_fours(v + 4), c = sum_fours(v + 8), d = sum_fours(v + 12);
    const Vector e = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const Vector f = add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    return add(_mm512_shuffle_f32x4(e, f, 0x88), _mm512_shuffle_f32x4(e, f, 0xdd));
  }
  // Rows become columns: squares of 4 within the quarters, then the quarters themselves.
  static void transpose(Vector (&v)[16]) {
#pragma GCC unroll 4
    for (int k = 0; k < 16; k += 4) turn_fours(v + k);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Vector a = _mm512_shuffle_f32x4(v[k], v[k + 4], 0x44), b = _mm512_shuffle_f32x4(v[k], v[k + 4], 0xee);
      const Vector c = _mm512_shuffle_f32x4(v[k + 8], v[k + 12], 0x44),
                   d = _mm512_shuffle_f32x4(v[k + 8], v[k + 12], 0xee);
      v[k] = _mm512_shuffle_f32x4(a, c, 0x88);
      v[k + 4] = _mm512_shuffle_f32x4(a, c, 0xdd);
      v[k + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
      v[k + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
  }
  static Vector widen(const Float16* p) { return _mm512_cvtph_ps(halves(p)); }
  static Vector widen(const BFloat16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(p)), 16));
  }
  static void narrow(Float16* p, Vector v) { put_halves(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
  static void narrow(BFloat16* p, Vector v) {
    const __m512i bits = _mm512_castps_si512(v),
                  odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i kept = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet);
    put_halves(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
  }

 private:
  static void put_halves(void* p, __m256i bits) { _mm256_storeu_si256(static_cast<__m256i*>(p), bits); }
  static __m256i halves(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
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
  static unsigned lanes(Mask m) { return m; }  // one bit each
  static Vector max(Vector a, Vector b) { return _mm512_max_pd(a, b); }
  static Vector abs(Vector a) { return _mm512_abs_pd(a); }
  static Vector to_exponent(Vector a) { return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(a), 52)); }
  // 2^(k/8), k the whole number in the last bits. Its last three digits choose from a table, from which they are taken
  // off again, as they come along with the others when those become the exponent.
  static Vector eighth_power(Vector a) {
    const __m512i bits = _mm512_castpd_si512(a);
    const __m512i table =
        _mm512_setr_epi64(0x3ff0000000000000, 0x3fef72b83c7d517b, 0x3fef06fe0a31b715, 0x3feebfdad5362a27,
                          0x3feea09e667f3bcd, 0x3feeace5422aa0db, 0x3feee89f995ad3ad, 0x3fef5818dcfba487);
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_permutexvar_epi64(bits, table), _mm512_slli_epi64(bits, 49)));
  }
  // Lanes k and k + 1 of each quarter, then the quarters as for float.
  static double sum(Vector v) {
    v = add(v, _mm512_permute_pd(v, 0x55));
    v = add(v, _mm512_shuffle_f64x2(v, v, 0x4e));
    return _mm512_cvtsd_f64(add(v, _mm512_shuffle_f64x2(v, v, 0xb1)));
  }
  static Vector sum_each(Vector (&v)[8]) {
    for (int k = 0; k < 8; k += 2) v[k] = add(_mm512_unpacklo_pd(v[k], v[k + 1]), _mm512_unpackhi_pd(v[k], v[k + 1]));
    for (int k = 0; k < 8; k += 4)
      v[k] = add(_mm512_shuffle_f64x2(v[k], v[k + 2], 0x44), _mm512_shuffle_f64x2(v[k], v[k + 2], 0xee));
    return add(_mm512_shuffle_f64x2(v[0], v[4], 0x88), _mm512_shuffle_f64x2(v[0], v[4], 0xdd));
  }
};

}  // namespace
}  // namespace headwise
