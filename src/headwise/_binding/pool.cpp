#include "pool.hpp"

#include <pthread.h>

#include <chrono>
#include <new>
#include <system_error>

#include "team.hpp"

namespace headwise {
namespace {

std::atomic<Pool*> current{nullptr};

// Tells the processor that this thread only waits.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Threads do not live on in a forked child: its pool starts anew, and the old one is left as it is.
void forget_pool() {
  forget_team();
  current.store(new (std::nothrow) Pool);
}

constexpr std::align_val_t kLine{64};
constexpr std::size_t kKept = 16u << 20;  // a larger buffer is given back at once

// Buffers that wait for the thread's next calls, the last one given back on top: nested calls find their own again.
struct Kept {
  struct Piece {
    char* data;
    std::size_t bytes;
  };
  Piece pieces[4];
  int count = 0;

  Piece pop() { return count ? pieces[--count] : Piece{nullptr, 0}; }
  bool push(Piece piece) {
    if (!piece.data || piece.bytes > kKept || count == 4) return false;
    pieces[count++] = piece;
    return true;
  }
  ~Kept() {
    while (count) ::operator delete(pop().data, kLine);
  }
};
thread_local Kept kept;

// Waits a moment for what will probably come soon: a thread that sleeps takes as long to wake.
constexpr auto kMoment = std::chrono::microseconds(50);

template <class Ready>
void stay_awake(Ready ready) {
  for (const auto until = std::chrono::steady_clock::now() + kMoment; std::chrono::steady_clock::now() < until;)
    for (int k = 0; k < 16; ++k) {
      if (ready()) return;
      relax();
    }
}

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
  for (;;) {
    stay_awake([this] { return wanted_ > 0; });
    std::unique_lock lock(mutex_);
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

void Pool::run(int helpers, bool team, const std::function<void()>& work, const std::function<void()>& idle) {
  if (helpers <= 0 || busy_.test_and_set(std::memory_order_acquire)) return work();
  if (!team || !run_in_team(helpers + 1, work)) run_in_pool(helpers, work, idle);
  busy_.clear(std::memory_order_release);
}

void Pool::run_in_pool(int helpers, const std::function<void()>& work, const std::function<void()>& idle) {
  {
    std::lock_guard lock(mutex_);
    start(helpers);
    work_ = &work;
    wanted_ = helpers;
  }
  wake_.notify_all();
  work();
  {
    std::lock_guard lock(mutex_);
    wanted_ = 0;
  }
  stay_awake([this] { return active_ == 0; });
  {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::milliseconds(20), [this] { return active_ == 0; })) {
      lock.unlock();
      idle();
      lock.lock();
    }
    work_ = nullptr;
  }
}

ThreadScratch::ThreadScratch(std::size_t bytes) {
  const auto piece = kept.pop();
  data_ = piece.data;
  bytes_ = piece.bytes;
  if (data_ && bytes_ >= bytes) return;
  ::operator delete(data_, kLine);
  data_ = static_cast<char*>(::operator new(bytes, kLine, std::nothrow));
  bytes_ = bytes;
}

ThreadScratch::~ThreadScratch() {
  if (!kept.push({data_, bytes_})) ::operator delete(data_, kLine);
}

}  // namespace headwise
