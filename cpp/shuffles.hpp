// What vectors of 4-byte numbers have in common, however many quarters of 16 bytes they are long: x86's instructions
// work in each of them alike.
#pragma once

#include <utility>

namespace headwise {
namespace {

// Within each quarter the first two lanes of two vectors (half 0), or the last two, taken in turn `group` at a time.
template <int group, int half, class V, int... k>
inline V take_turns(V a, V b, std::integer_sequence<int, k...>) {
  constexpr int width = sizeof...(k);
  constexpr auto source = [](int lane) {
    const int in_quarter = lane % 4, turn = in_quarter / group % 2;
    return lane - in_quarter + 2 * half + (group == 1 ? in_quarter / 2 : in_quarter % 2) + turn * width;
  };
  return __builtin_shufflevector(a, b, source(k)...);
}

template <int group, int half, class V>
inline V take_turns(V a, V b) {
  return take_turns<group, half>(a, b, std::make_integer_sequence<int, sizeof(V) / 4>());
}

// Four rows become columns within each quarter.
template <class V>
inline void turn_fours(V* v) {
  const V a = take_turns<1, 0>(v[0], v[1]), b = take_turns<1, 1>(v[0], v[1]);
  const V c = take_turns<1, 0>(v[2], v[3]), d = take_turns<1, 1>(v[2], v[3]);
  v[0] = take_turns<2, 0>(a, c);
  v[1] = take_turns<2, 1>(a, c);
  v[2] = take_turns<2, 0>(b, d);
  v[3] = take_turns<2, 1>(b, d);
}

// The sum of each quarter of four vectors: lane k of a quarter belongs to vector k. Lanes k and k + 2 are added first.
template <class V>
inline V sum_fours(const V* v) {
  const V a = take_turns<1, 0>(v[0], v[1]) + take_turns<1, 1>(v[0], v[1]);
  const V b = take_turns<1, 0>(v[2], v[3]) + take_turns<1, 1>(v[2], v[3]);
  return take_turns<2, 0>(a, b) + take_turns<2, 1>(a, b);
}

}  // namespace
}  // namespace headwise
