// Python buffers become strided operands, broadcast as NumPy does.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"

namespace headwise {

// A Python object's buffer, held until this goes.
class Buffer {
 public:
  Buffer(nanobind::handle object, int flags) {
    if (object.is_none()) return;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags)) throw nanobind::python_error();
    held_ = true;
  }
  ~Buffer() {
    if (held_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  explicit operator bool() const { return held_; }
  char* data() const { return static_cast<char*>(view_.buf); }
  int ndim() const { return view_.ndim; }
  Index bytes() const { return view_.len; }
  const char* format() const { return view_.format; }

  // Size and stride of an axis counted from the last one (0), as broadcasting wants it: 1 and 0 where there is none.
  Index size(int from_last) const { return from_last < ndim() ? view_.shape[ndim() - 1 - from_last] : 1; }
  Index stride(int from_last) const { return size(from_last) == 1 ? 0 : view_.strides[ndim() - 1 - from_last]; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

// The letter of a buffer's elements, without the mark of their byte order; none where they are not simple ones.
inline char letter_of(const char* format) {
  const std::string letters = format ? format : "B";
  const std::size_t first = letters.find_first_not_of("@=<>!");
  return first != std::string::npos && first + 1 == letters.size() ? letters[first] : '\0';
}

inline bool is_index(char letter) { return letter == 'l' || letter == 'q'; }

enum class Role { input, whole_numbers, booleans, output };

// An operand and the offsets of its outer items.
struct Operand {
  Operand(nanobind::handle object, Role r)
      : buffer(object, (r == Role::output ? PyBUF_WRITABLE : 0) | PyBUF_STRIDES | PyBUF_FORMAT), role(r) {}

  // The operand seen in the outer dimensions of `whole`, the result.
  Strided strided(const Buffer& whole) {
    Strided s;
    if (!buffer) return s;
    for (int axis = 3; axis < buffer.ndim(); ++axis)
      if (buffer.size(axis) != 1 && buffer.size(axis) != whole.size(axis))
        throw std::invalid_argument("headwise: inconsistent arrays: leading dimensions");
    set_outer(whole);
    s.data = buffer.data();
    s.outer = outer.data();
    s.head = buffer.stride(2);
    s.row = buffer.stride(1);
    s.column = buffer.stride(0);
    set_type(s);
    return s;
  }

  Buffer buffer;
  Role role;
  std::vector<Index> outer;

 private:
  void set_outer(const Buffer& whole) {
    outer.assign(1, 0);
    for (int axis = whole.ndim() - 1; axis >= 3; --axis) {
      std::vector<Index> longer;
      longer.reserve(outer.size() * whole.size(axis));
      for (const Index start : outer)
        for (Index k = 0; k < whole.size(axis); ++k) longer.push_back(start + k * buffer.stride(axis));
      outer.swap(longer);
    }
  }

  // bfloat16 comes as a record of that name, because buffers have no letter for it.
  void set_type(Strided& s) const {
    const std::string format = buffer.format() ? buffer.format() : "B";
    s.swapped = format.find(PY_BIG_ENDIAN ? '<' : '>') != std::string::npos || format[0] == '!';
    const char kind = letter_of(format.c_str());
    const bool brain = format.find(":bfloat16:") != std::string::npos;
    s.type = brain         ? ElementType::bfloat16
             : kind == 'd' ? ElementType::float64
             : kind == 'e' ? ElementType::float16
                           : ElementType::float32;
    const bool known = role == Role::booleans        ? kind == '?'
                       : role == Role::whole_numbers ? is_index(kind) && !s.swapped
                                                     : brain || kind == 'd' || kind == 'f' || kind == 'e';
    if (!known) throw std::invalid_argument("headwise: no kernel for elements of format " + format);
  }
};

}  // namespace headwise
