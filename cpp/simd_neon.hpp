// Vectors of 16 bytes: 64-bit Arm with NEON.
#pragma once

#include <arm_neon.h>

#include "short_floats.hpp"

namespace headwise {
namespace {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  using Element = float;
  using Vector = float32x4_t;
  using Mask = uint32x4_t;

  static constexpr int width = 4;
  static constexpr bool fused = true;      // fma rounds once
  static constexpr int panel_height = 12;  // 12 × 2 sums, 2 vectors and broadcasts in 32 registers

  static Vector load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, Vector v) { vst1q_f32(p, v); }
  static Vector set(float x) { return vdupq_n_f32(x); }
  static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector sub(Vector a, Vector b) { return vsubq_f32(a, b); }
  static Vector mul(Vector a, Vector b) { return vmulq_f32(a, b); }
  static Vector div(Vector a, Vector b) { return vdivq_f32(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
  static Mask less(Vector a, Vector b) { return vcltq_f32(a, b); }
  static Vector select(Mask m, Vector yes, Vector no) { return vbslq_f32(m, yes, no); }
  static unsigned lanes(Mask m) { return (m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8); }  // one bit each
  // The larger; b where either is NaN, as on x86.
  static Vector max(Vector a, Vector b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static Vector abs(Vector a) { return vabsq_f32(a); }
  static Vector to_exponent(Vector a) { return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23)); }
  static float sum(Vector v) {
    const float32x2_t half = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(half, 0) + vget_lane_f32(half, 1);
  }
  static Vector widen(const Float16* p) { return vcvt_f32_f16(vreinterpret_f16_u16(halves(p))); }
  static Vector widen(const BFloat16* p) { return vreinterpretq_f32_u32(vshll_n_u16(halves(p), 16)); }
  static void narrow(Float16* p, Vector v) {
    const uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(v));
    std::memcpy(p, &bits, sizeof bits);
  }

 private:
  static uint16x4_t halves(const void* p) {
    uint16x4_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
  }
};

template <>
struct Simd<double> {
  using Element = double;
  using Vector = float64x2_t;
  using Mask = uint64x2_t;

  static constexpr int width = 2;
  static constexpr bool fused = true;  // fma rounds once
  static constexpr int panel_height = 12;

  static Vector load(const double* p) { return vld1q_f64(p); }
  static void store(double* p, Vector v) { vst1q_f64(p, v); }
  static Vector set(double x) { return vdupq_n_f64(x); }
  static Vector add(Vector a, Vector b) { return vaddq_f64(a, b); }
  static Vector sub(Vector a, Vector b) { return vsubq_f64(a, b); }
  static Vector mul(Vector a, Vector b) { return vmulq_f64(a, b); }
  static Vector div(Vector a, Vector b) { return vdivq_f64(a, b); }
  static Vector fma(Vector a, Vector b, Vector c) { return vfmaq_f64(c, a, b); }
  static Mask less(Vector a, Vector b) { return vcltq_f64(a, b); }
  static Vector select(Mask m, Vector yes, Vector no) { return vbslq_f64(m, yes, no); }
  static unsigned lanes(Mask m) { return unsigned((m[0] & 1) | (m[1] & 2)); }  // one bit each
  static Vector max(Vector a, Vector b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
  static Vector abs(Vector a) { return vabsq_f64(a); }
  static Vector to_exponent(Vector a) { return vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(a), 52)); }
  static double sum(Vector v) { return vaddvq_f64(v); }
};

}  // namespace
}  // namespace headwise
