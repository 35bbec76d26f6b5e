// The largest score of each lane and, where it is asked for, the key that has it.
//
// Comparing every score with the largest so far would be dear. It is enough to know after every few keys whether the
// largest has risen: those few are looked at again at the end.
#pragma once

#include "tiles.hpp"

namespace headwise {
namespace {

constexpr Index kNear = 12;  // at least the height of a panel

// Lanes are queries, and scores lie key by key. The first key with a lane's largest score is where[r], or one of the
// few behind it: kNear in all.
template <class S>
struct Highest {
  using T = typename S::Element;
  typename S::Vector* maximum = nullptr;
  T* where = nullptr;
  const T* scores = nullptr;
};

template <class S>
inline void note_risen(typename S::Vector before, typename S::Vector now, Index key, typename S::Element* where) {
  S::store(where, S::select(S::less(before, now), S::set(typename S::Element(key)), S::load(where)));
}

// The same of scores that are there already.
template <class S, int vectors>
inline void largest(const typename S::Element* scores, Index count, typename S::Vector* maximum,
                    typename S::Element* where = nullptr) {
  for (int v = 0; v < vectors; ++v) maximum[v] = S::set(-typename S::Element(__builtin_inf()));
  for (Index k = 0; k < count;) {
    const Index first = k, end = where ? smaller(count, k + kNear) : count;
    typename S::Vector before[vectors];
    for (int v = 0; v < vectors; ++v) before[v] = maximum[v];
    for (; k < end; ++k)
      for (int v = 0; v < vectors; ++v) maximum[v] = S::max(S::load(scores + (k * vectors + v) * S::width), maximum[v]);
    if (where)
      for (int v = 0; v < vectors; ++v) note_risen<S>(before[v], maximum[v], first, where + v * S::width);
  }
}

// Puts a number for each lane into `count` ones in descending order, which lie `stride` apart; the last one falls out.
template <class S>
inline void insert_descending(typename S::Vector falling, typename S::Element* place, Index count, Index stride) {
  for (Index k = 0; k < count; ++k, place += stride) {
    const auto here = S::load(place);
    S::store(place, S::max(falling, here));
    falling = S::select(S::less(here, falling), here, falling);
  }
}

// The first key of a lane that has its largest score, from key `where` on; the lane's scores are `lanes` apart. What
// lies behind the last key is read but never chosen. Without a branch: lanes differ.
template <class T>
inline Index first_with(T largest, const T* scores, Index lanes, Index where) {
  scores += where * lanes;
  Index first = 0;
#pragma GCC unroll 16
  for (Index k = kNear - 1; k >= 0; --k) first = scores[k * lanes] >= largest ? k : first;
  return where + first;
}

}  // namespace
}  // namespace headwise
