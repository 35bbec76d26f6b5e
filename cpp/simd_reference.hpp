// The scalar reference: every kernel with vectors of one element.
#pragma once

#include "simd_scalar.hpp"

namespace headwise {
namespace {

template <class T>
using Simd = Scalar<T>;

}  // namespace
}  // namespace headwise
