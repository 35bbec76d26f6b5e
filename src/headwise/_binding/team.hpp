// PyTorch's threads, where PyTorch is loaded. They are OpenMP's, and spin for some milliseconds after each of its
// operations: threads of our own would wait all that time for a processor. So work goes to them: the same thread calls
// both libraries, and its team is one and the same.
#pragma once

#include <functional>
#include <string>

namespace headwise {

// Runs `work` once in each thread of a team of `size`, this one included, and returns when all have left it. False, and
// nothing is done, where there is no PyTorch, or its teams are smaller.
bool run_in_team(int size, const std::function<void()>& work);

// The library that the team is of; empty where there is none.
std::string team_library();

// In a forked child, where OpenMP's threads are gone and it does not know.
void forget_team();

}  // namespace headwise
