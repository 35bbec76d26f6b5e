#include "team.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <mutex>

namespace headwise {
namespace {

// The interface that g++ compiles `#pragma omp parallel` to, which LLVM's and Intel's OpenMP have as well.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

struct Team {
  Parallel parallel = nullptr;
  int (*max_threads)() = nullptr;
  int (*in_parallel)() = nullptr;
  std::string path;
};

// What is loaded: PyTorch, and the library that its threads come from, best the one that came with it.
struct Loaded {
  bool torch = false;
  std::string openmp;
};

int look_at_library(dl_phdr_info* info, std::size_t, void* found) {
  Loaded& loaded = *static_cast<Loaded*>(found);
  const std::string path = info->dlpi_name, name = path.substr(path.rfind('/') + 1);
  loaded.torch |= name.starts_with("libtorch_cpu");
  const bool openmp = name.starts_with("libgomp") || name.starts_with("libomp") || name.starts_with("libiomp");
  if (openmp && (loaded.openmp.empty() || path.find("torch") != std::string::npos)) loaded.openmp = path;
  return 0;
}

Team find_team() {
  Loaded loaded;
  dl_iterate_phdr(look_at_library, &loaded);
  if (!loaded.torch || loaded.openmp.empty()) return {};
  void* library = dlopen(loaded.openmp.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return {};
  Team team;
  team.parallel = reinterpret_cast<Parallel>(dlsym(library, "GOMP_parallel"));
  team.max_threads = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
  team.in_parallel = reinterpret_cast<int (*)()>(dlsym(library, "omp_in_parallel"));
  team.path = loaded.openmp;
  return team.parallel && team.max_threads && team.in_parallel ? team : Team{};
}

// Libraries are looked through once in a while, until PyTorch is among them.
using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::milliseconds(100);

std::mutex mutex;
std::atomic<const Team*> found{nullptr};
std::atomic<bool> forgotten{false};
std::atomic<Clock::rep> next_look{0};

const Team* team() {
  if (forgotten) return nullptr;
  if (const Team* known = found.load(std::memory_order_acquire)) return known;
  const auto now = Clock::now().time_since_epoch();
  if (now.count() < next_look.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex);
  next_look = (now + kPatience).count();
  if (found) return found;
  if (Team candidate = find_team(); candidate.parallel) found.store(new Team(std::move(candidate)));
  return found;
}

}  // namespace

bool run_in_team(int size, const std::function<void()>& work) {
  const Team* mine = team();
  if (!mine || mine->in_parallel() || size > mine->max_threads()) return false;
  mine->parallel([](void* data) { (*static_cast<const std::function<void()>*>(data))(); },
                 const_cast<std::function<void()>*>(&work), unsigned(size), 0);
  return true;
}

std::string team_library() {
  const Team* mine = team();
  return mine ? mine->path : std::string();
}

void forget_team() { forgotten = true; }

}  // namespace headwise
