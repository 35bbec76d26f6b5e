// float16 and bfloat16 in memory, float32 in arithmetic. No branches on the way in, so that loops become vectors.
#pragma once

#include <cstring>

#include "arguments.hpp"

namespace headwise {
namespace {

// Their bits in memory.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float from_bfloat16(std::uint16_t half) { return float_of(std::uint32_t(half) << 16); }

// The exponent of float16 has 5 bits, bias 15: moved to its place it is 112 too low; its largest value means infinity
// or NaN, and goes to the largest. Below the normal range, where the fraction counts in steps of 2^-24, that fraction
// is put behind 2^-14, which is then taken away again.
inline float from_float16(std::uint16_t half) {
  const std::int32_t rest = std::int32_t(half & 0x7fff) << 13;
  const bool tiny = rest < (1 << 23), special = rest >= (31 << 23);
  const std::int32_t bits = rest + ((tiny ? 113 : special ? 224 : 112) << 23);
  const float size = float_of(std::uint32_t(bits)) - (tiny ? 0x1p-14f : 0.0f);
  return float_of(bits_of(size) | std::uint32_t(half & 0x8000) << 16);
}

inline float widened(Float16 half) { return from_float16(half.bits); }
inline float widened(BFloat16 half) { return from_bfloat16(half.bits); }

// To the nearest, ties to even; NaN stays NaN.
inline std::uint16_t to_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
  return std::uint16_t((x != x ? bits | 0x400000 : rounded) >> 16);
}

inline std::uint16_t to_float16(float x) {
  const std::uint32_t bits = bits_of(x), size = bits & 0x7fffffff;
  const std::uint16_t sign = std::uint16_t(bits >> 16 & 0x8000);
  if (size > 0x7f800000) return sign | 0x7e00;          // NaN
  if (size >= bits_of(65520.0f)) return sign | 0x7c00;  // rounds to infinity
  if (size < bits_of(0x1p-14f))                         // steps of 2^-24, counted by a sum with 1/2
    return sign | std::uint16_t(bits_of(float_of(size) + 0.5f) - bits_of(0.5f));
  return sign | std::uint16_t((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

inline void narrow(float x, Float16& half) { half.bits = to_float16(x); }
inline void narrow(float x, BFloat16& half) { half.bits = to_bfloat16(x); }

}  // namespace
}  // namespace headwise
