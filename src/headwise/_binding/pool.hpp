// The thread pool: threads that start when first needed, wait a moment and then sleep
// between calls, and survive a fork.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace headwise {

class Pool {
 public:
  // The process's pool; after a fork the child gets a new one.
  static Pool& instance();

  // Runs `work` in this thread and in up to `helpers` others, and returns when all have left it. `work` is called
  // once in each thread and must share out its items itself. While this thread waits it calls `idle` now and then.
  // Where the pool is busy with another call, `work` runs in this thread alone.
  // With `team` PyTorch's threads do it, where it is loaded.
  void run(int helpers, bool team, const std::function<void()>& work, const std::function<void()>& idle);

 private:
  void run_in_pool(int helpers, const std::function<void()>& work, const std::function<void()>& idle);
  void start(int count);
  void serve();

  std::atomic_flag busy_;  // set while a call owns the helpers; a nested call in its thread finds it set, too
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void()>* work_ = nullptr;
  std::atomic<int> wanted_{0}, active_{0};
  std::vector<std::thread> threads_;
};

// Memory that a thread keeps from call to call. Nested calls in one thread each get their own.
class ThreadScratch {
 public:
  explicit ThreadScratch(std::size_t bytes);
  ~ThreadScratch();
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
  std::size_t bytes_;
};

}  // namespace headwise
