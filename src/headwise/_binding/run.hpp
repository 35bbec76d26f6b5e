// Work for all threads: which kernel, which items, who stops them.
#pragma once

#include <Python.h>

#include <vector>

#include "kernels.hpp"

namespace headwise {

// Without the interpreter's lock for as long as this lives. Where the interpreter ended meanwhile, the thread (a daemon
// that nobody waited for) sleeps for good instead of touching it.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// To be called once, when the module is loaded: signals are handled in the interpreter's main thread alone.
void remember_main_thread(unsigned long ident);

// How many threads a call may use, and whether they may be PyTorch's (see team.hpp).
struct Threads {
  int count;
  bool team;
};

// Each returns false where it was interrupted: then a Python exception is set in this thread. To be called without
// the interpreter's lock; takes it now and then to let signal handlers run.
bool attend(Arguments& a, const Kernels& kernels, ElementType type, Threads threads);
// Both passes, or where rows were `attended` to already the second one.
bool collect(Arguments& a, Collection& c, bool attended, const Kernels& kernels, ElementType type, Threads threads);
bool count_viewers(Arguments& a, Index* viewers, Index* pairs, const Kernels& kernels, ElementType type,
                   Threads threads);
bool weights(Arguments& a, const Kernels& kernels, ElementType type, const std::vector<Rectangle>& rectangles,
             Threads threads);

}  // namespace headwise
