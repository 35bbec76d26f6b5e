// Work for all threads: which kernel, which items, who stops them.
#pragma once

#include "kernels.hpp"

namespace headwise {

// Each returns false where it was interrupted: then a Python exception is set in this thread. To be called without
// the interpreter's lock; takes it now and then to let signal handlers run.
bool attend(Arguments& a, const Kernels& kernels, ElementType type, int num_threads);
bool weights(Arguments& a, const Kernels& kernels, ElementType type, const Rectangle& rectangle, int num_threads);

}  // namespace headwise
