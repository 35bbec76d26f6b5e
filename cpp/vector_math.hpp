// 2 to the power d · c and the hyperbolic tangent, a vector at a time. Maximum errors (tests measure them): exp2 0.85
// ulp in float32 and 0.90 in float64 (1.01 with a table), tanh 3.6 ulp.
//
//   d · c = n + f, n a whole number, f in [-1/2, 1/2]        2^(d·c) = 2^n · 2^f
//
// 2^f is 1 + f · c(f), c of degree 5 (float32) or 10 (float64), fitted for least relative error (Remez), then
// moved by a few units in their last places to where roundings cancel best; 1 is kept exact so that 2^0 is 1. n comes
// from adding a large number whose last bit has the weight 1, and that sum's low bits, moved up, are the exponent of
// 2^n. Results below the normal range become 0; NaN stays NaN. Where a vector of numbers can be a table of powers, n
// counts eighths, f is at most 1/16, and c needs only degree 6; a result below the normal range may then stay one
// instead of becoming 0, which all from 2^-1023 down do. `growth` is another c, fitted for least relative error
// of 2^f - 1.
#pragma once

namespace headwise {
namespace {

template <class T>
struct Exp2;

template <>
struct Exp2<float> {
  static constexpr float lowest = -127.0f;              // 2^-127 has the exponent field 0: the result is 0
  static constexpr float least = -0x1.fffffep127f;      // the least finite number
  static constexpr float shift = 12582912.0f + 127.0f;  // 1.5 · 2^23 and the exponent's bias
  static constexpr float coefficients[] = {0x1.62e432p-1f, 0x1.ebfbe8p-3f,  0x1.c6ae4ap-5f,
                                           0x1.3b263ap-7f, 0x1.5f71d2p-10f, 0x1.4709e8p-13f};
  static constexpr float growth[] = {0x1.62e430p-1f, 0x1.ebfbdep-3f,  0x1.c6af6ep-5f,
                                     0x1.3b2ba0p-7f, 0x1.5f07b4p-10f, 0x1.4308fap-13f};
};

template <>
struct Exp2<double> {
  static constexpr double lowest = -1023.0;
  static constexpr double least = -0x1.fffffffffffffp1023;
  static constexpr double shift = 6755399441055744.0 + 1023.0;  // 1.5 · 2^52
  static constexpr double eighths = 6755399441055744.0 / 8;
  static constexpr double coefficients[] = {0x1.62e42fefa39f3p-1,  0x1.ebfbdff82c59dp-3,  0x1.c6b08d7048f2fp-5,
                                            0x1.3b2ab6fba1d68p-7,  0x1.5d87fe7bbbcddp-10, 0x1.4309130961174p-13,
                                            0x1.ffcbee3b0a626p-17, 0x1.62bfd49edee35p-20, 0x1.b54167a1aff6cp-24,
                                            0x1.e605f964b63a0p-28, 0x1.c063841f3a1bcp-32};
  static constexpr double near[] = {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c6c5p-3,  0x1.c6b08d704a11fp-5,
                                    0x1.3b2ab6f1f1910p-7, 0x1.5d87fe72ac65ep-10, 0x1.430deca12d584p-13,
                                    0x1.ffd1f6633bd3ap-17};
  static constexpr double growth[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a08ep-5,
                                      0x1.3b2ab6fba1e40p-7,  0x1.5d87fe78b211ap-10, 0x1.4309130958e77p-13,
                                      0x1.ffcbfc1ea37c7p-17, 0x1.62bfd4b4adf2bp-20, 0x1.b525a09339debp-24,
                                      0x1.e605d28b72567p-28, 0x1.e8cab7c976947p-32};
};

// The factor of an exponent, and the difference from which on the result is 0 (hidden scores are -inf).
template <class S>
struct Exponent {
  using T = typename S::Element;
  typename S::Vector factor, limit;

  explicit Exponent(double c) : factor(S::set(T(c))), limit(S::set(Exp2<T>::lowest / T(c))) {}

  // Brings a difference of scores into the range that exp2 takes. NaN stays NaN.
  typename S::Vector clip(typename S::Vector d) const { return S::max(limit, d); }
};

// 1 + f · q, rounded once or nearly so. Without a fused multiply-add the factors are cut into a short head and a
// tail: the product of the heads and its sum with 1 are exact, and what the tails add is small.
template <class S>
inline typename S::Vector one_plus_product(typename S::Vector f, typename S::Vector q) {
  using T = typename S::Element;
  using V = typename S::Vector;
  if constexpr (S::fused) return S::fma(q, f, S::set(T(1)));
  constexpr T cut_f = sizeof(T) == 4 ? T(0x1.8p13) : T(0x1.8p28);  // to multiples of 2^-10 or 2^-24
  constexpr T cut_q = sizeof(T) == 4 ? T(0x1.8p12) : T(0x1.8p26);  // to multiples of 2^-11 or 2^-26
  const V f_head = S::sub(S::add(f, S::set(cut_f)), S::set(cut_f));
  const V q_head = S::sub(S::add(q, S::set(cut_q)), S::set(cut_q));
  const V tails = S::add(S::mul(S::sub(f, f_head), q), S::mul(f_head, S::sub(q, q_head)));
  return S::add(S::add(S::set(T(1)), S::mul(f_head, q_head)), tails);
}

// c(f), so that 2^f = 1 + f · c(f).
template <class S, int terms>
inline typename S::Vector power_series(typename S::Vector fraction, const typename S::Element (&coefficients)[terms]) {
  typename S::Vector power = S::set(coefficients[terms - 1]);
#pragma GCC unroll 16
  for (int k = terms - 2; k >= 0; --k) power = S::fma(power, fraction, S::set(coefficients[k]));
  return power;
}

// 2^(d · factor) for d from the limit to 0; the product is not rounded where there is a fused multiply-add.
template <class S>
inline typename S::Vector exp2(typename S::Vector d, const Exponent<S>& exponent) {
  using T = typename S::Element;
  using V = typename S::Vector;
  if constexpr (requires { S::eighth_power(d); }) {
    const V shifted = S::fma(d, exponent.factor, S::set(Exp2<T>::eighths));
    const V fraction = S::fma(d, exponent.factor, S::sub(S::set(Exp2<T>::eighths), shifted));
    const V power = S::eighth_power(shifted);
    return S::fma(power, S::mul(fraction, power_series<S>(fraction, Exp2<T>::near)), power);
  }
  const V shifted = S::fma(d, exponent.factor, S::set(Exp2<T>::shift));
  const V fraction = S::fma(d, exponent.factor, S::sub(S::set(Exp2<T>::shift), shifted));
  return S::mul(one_plus_product<S>(fraction, power_series<S>(fraction, Exp2<T>::coefficients)),
                S::to_exponent(shifted));
}

// tanh x = m / (m + 2) with m = e^(2|x|) - 1 = (2^n - 1) + 2^n · f · c(f), and the sign of x: small arguments keep
// their relative precision. NaN stays NaN.
template <class S>
inline typename S::Vector tanh(typename S::Vector x) {
  using T = typename S::Element;
  using V = typename S::Vector;
  constexpr T saturated = sizeof(T) == 4 ? 10 : 20;  // from here on the result is 1 to the last bit
  const V size = S::sub(S::set(0), S::max(S::set(-saturated), S::sub(S::set(0), S::abs(x))));
  const V factor = S::set(T(2 * 1.4426950408889634074));
  const V shifted = S::fma(size, factor, S::set(Exp2<T>::shift));
  const V fraction = S::fma(size, factor, S::sub(S::set(Exp2<T>::shift), shifted));
  const V scale = S::to_exponent(shifted);
  const V m = S::fma(S::mul(fraction, scale), power_series<S>(fraction, Exp2<T>::growth), S::sub(scale, S::set(1)));
  const V result = S::div(m, S::add(m, S::set(2)));
  return S::select(S::less(x, S::set(0)), S::sub(S::set(0), result), result);
}

}  // namespace
}  // namespace headwise
