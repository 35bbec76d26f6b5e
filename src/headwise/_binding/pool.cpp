#include "pool.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <system_error>

namespace headwise {
namespace {

std::atomic<Pool*> current{nullptr};

// Threads do not live on in a forked child: its pool starts anew, and the old one is left as it is.
void forget_pool() { current.store(new (std::nothrow) Pool); }

constexpr std::align_val_t kLine{64};
constexpr std::size_t kKept = 16u << 20;  // a larger buffer is given back at once

// The buffer that waits for the thread's next call.
struct Kept {
  char* data = nullptr;
  std::size_t bytes = 0;
  ~Kept() { ::operator delete(data, kLine); }
};
thread_local Kept kept;

}  // namespace

Pool& Pool::instance() {
  static std::once_flag once;
  std::call_once(once, [] {
    current.store(new Pool);
    pthread_atfork(nullptr, nullptr, forget_pool);
  });
  return *current.load();
}

void Pool::start(int count) {
  try {
    while (int(threads_.size()) < count) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // The machine gives no more threads: the work is done by those there are.
  }
}

void Pool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return wanted_ > 0; });
    --wanted_;
    ++active_;
    const auto* work = work_;
    lock.unlock();
    (*work)();
    lock.lock();
    if (--active_ == 0) done_.notify_all();
  }
}

void Pool::run(int helpers, const std::function<void()>& work, const std::function<void()>& idle) {
  std::unique_lock owner(busy_, std::try_to_lock);
  if (helpers <= 0 || !owner.owns_lock()) return work();
  {
    std::lock_guard lock(mutex_);
    start(helpers);
    work_ = &work;
    wanted_ = helpers;
  }
  wake_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  wanted_ = 0;
  while (!done_.wait_for(lock, std::chrono::milliseconds(20), [this] { return active_ == 0; })) {
    lock.unlock();
    idle();
    lock.lock();
  }
  work_ = nullptr;
}

ThreadScratch::ThreadScratch(std::size_t bytes) : data_(kept.data), bytes_(kept.bytes) {
  kept = {};
  if (bytes_ >= bytes) return;
  ::operator delete(data_, kLine);
  data_ = static_cast<char*>(::operator new(bytes, kLine, std::nothrow));
  bytes_ = data_ ? bytes : 0;
}

ThreadScratch::~ThreadScratch() {
  if (kept.data || bytes_ > kKept) {
    ::operator delete(data_, kLine);
  } else {
    kept.data = data_;
    kept.bytes = bytes_;
  }
}

}  // namespace headwise
