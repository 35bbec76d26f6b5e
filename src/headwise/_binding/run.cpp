#include "run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "pool.hpp"

namespace headwise {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSignalInterval = std::chrono::milliseconds(50);
constexpr double kSerialWork = 4e5;        // multiply-adds below which a second thread costs more than it saves
constexpr Index kPartialBytes = 16 << 20;  // unmerged chunks kept at a time
constexpr Index kKeptBytes = 128 << 20;    // of all threads together, for scores that are not computed again

unsigned long main_thread = 0;

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// The items of one call, shared by its threads, and the word to stop.
class Job {
 public:
  explicit Job(Arguments& a)
      : caller_(std::this_thread::get_id()),
        handles_signals_(PyThread_get_thread_ident() == main_thread),
        checked_(Clock::now()) {
    a.stop = {[](void* self) { return static_cast<Job*>(self)->poll(); }, this};
  }

  // Shares `count` items among the threads, `run` of them at a time. `each(k, scratch)` must not throw.
  template <class Each>
  void for_each(Index count, Threads threads, Index run, std::size_t scratch_bytes, Each each) {
    std::atomic<Index> next{0};
    const auto work = [&] {
      const ThreadScratch scratch(scratch_bytes);
      if (!scratch.data()) {
        run_out_of_memory();
        return;
      }
      for (Index first; !stopped_ && (first = next.fetch_add(run)) < count;)
        for (Index k = first; k < std::min(first + run, count) && !stopped_; ++k) each(k, scratch.data());
    };
    Pool::instance().run(int(std::min<Index>(threads.count, (count + run - 1) / run)) - 1, threads.team, work,
                         [this] { poll(); });
  }

  void run_out_of_memory() { out_of_memory_ = stopped_ = true; }

  // To be asked at the end, in the calling thread.
  bool finished() const {
    if (out_of_memory_) {
      const PyGILState_STATE state = PyGILState_Ensure();
      PyErr_NoMemory();
      PyGILState_Release(state);
    }
    return !stopped_;
  }

 private:
  // Lets Python's signal handlers run, in the calling thread and not too often. True: stop.
  bool poll() {
    if (stopped_ || !handles_signals_ || std::this_thread::get_id() != caller_) return stopped_;
    const auto now = Clock::now();
    if (now - checked_ < kSignalInterval) return false;
    const PyGILState_STATE state = PyGILState_Ensure();
    if (PyErr_CheckSignals()) stopped_ = true;
    PyGILState_Release(state);
    checked_ = Clock::now();
    return stopped_;
  }

  const std::thread::id caller_;
  const bool handles_signals_;
  Clock::time_point checked_;
  std::atomic<bool> stopped_{false}, out_of_memory_{false};
};

double work_of(const Arguments& a) {
  const double dims = double(a.head_dim + a.value_dim);
  return double(a.outer_size) * double(a.num_heads) * double(a.query_len) * double(a.kv_len) * dims;
}

// Blocks of rows, the last of each head first: under a causal mask those are the longest.
void attend_blocks(Job& job, const Arguments& a, const TypedKernels& k, Threads threads) {
  const Index heads = a.outer_size * a.num_kv_heads;
  Index rows = k.block_rows(a);
  const Index least = k.block_rows(a) / 4;
  while (rows / 2 >= std::max<Index>(least, kFewRows) &&
         heads * ((a.rows() + rows - 1) / rows) < Index(4) * threads.count)
    rows /= 2;
  const Index blocks = (a.rows() + rows - 1) / rows;
  const auto range = [&](Index n) {
    if (n >= heads * blocks) return RowRange{};
    const Index head = n / blocks, begin = (blocks - 1 - n % blocks) * rows;
    return RowRange{head / a.num_kv_heads, head % a.num_kv_heads, begin, std::min(begin + rows, a.rows())};
  };
  job.for_each(heads * blocks, threads, 1, std::size_t(k.block_scratch(a, std::min(rows, a.rows()))),
               [&](Index n, char* scratch) { k.attend_block(a, range(n), range(n + threads.count), scratch); });
}

Index count_chunks(const Arguments& a, const TypedKernels& k) {
  return std::max<Index>(1, (a.kv_len + k.chunk_keys(a) - 1) / k.chunk_keys(a));
}

// The chunks of some key/value heads, then of the next ones. Whoever finishes the last chunk of a head merges them all.
// Threads take neighbouring chunks, so that what memory brought ahead is used.
void attend_chunks(Job& job, const Arguments& a, const TypedKernels& k, Threads threads) {
  const Index heads = a.outer_size * a.num_kv_heads, chunks = count_chunks(a, k);
  const Index each = k.partial_bytes(a) * chunks, wave = std::clamp<Index>(kPartialBytes / each, 1, heads);
  const ThreadScratch partials(std::size_t(each * wave));
  const std::unique_ptr<std::atomic<Index>[]> left(new (std::nothrow) std::atomic<Index>[std::size_t(wave)]);
  if (!partials.data() || !left) return job.run_out_of_memory();
  for (Index first = 0; first < heads && !a.stop(); first += wave) {
    const Index count = std::min(wave, heads - first);
    for (Index head = 0; head < count; ++head) left[std::size_t(head)] = chunks;
    const Index run = std::clamp<Index>(count * chunks / (4 * threads.count), 1, 4);
    job.for_each(count * chunks, threads, run, std::size_t(k.chunk_scratch(a)), [&](Index n, char* scratch) {
      const Index head = n / chunks, place = first + head;
      const RowRange range{place / a.num_kv_heads, place % a.num_kv_heads, 0, a.rows()};
      k.attend_chunk(a, range, n % chunks, partials.data() + n * k.partial_bytes(a), scratch);
      if (--left[std::size_t(head)] == 0 && !a.stop()) k.merge_chunks(a, range, chunks, partials.data() + head * each);
    });
  }
}

// Few rows share their keys among threads; so do some more, where there are keys enough.
bool splits_keys(const Arguments& a, const TypedKernels& k) {
  return a.rows() < kFewRows || (a.rows() <= kSplitRows && count_chunks(a, k) > 1);
}

void attend_all(Job& job, const Arguments& a, const TypedKernels& k, Threads threads) {
  splits_keys(a, k) ? attend_chunks(job, a, k, threads) : attend_blocks(job, a, k, threads);
}

// Bands of queries, the last of each item first. Where heads are compared with one another, all go together.
class Bands {
 public:
  Bands(const Arguments& a, const Collection& c, const TypedKernels& k)
      : a_(a), c_(c), k_(k), together_(c.products ? a.num_kv_heads : 1), sets_(a.num_kv_heads / together_) {}

  // Whether both passes can be made in one: rows that fill strips of one head each, bands enough for all threads, and
  // room for the scores.
  bool kept_scores_fit(Threads threads) const {
    Collection c = c_;
    c.attends = true;
    return !splits_keys(a_, k_) && (a_.group() == 1 || a_.query_len >= kSplitRows) && count() >= threads.count &&
           k_.collect_scratch(a_, c, together_) * threads.count <= kKeptBytes;
  }

  void collect(Job& job, Threads threads) const {
    job.for_each(count(), threads, 1, std::size_t(k_.collect_scratch(a_, c_, together_)), [&](Index n, char* scratch) {
      const Index set = n / c_.bands, first = set % sets_ * together_;
      k_.collect(a_, c_, {set / sets_, first, first + together_, c_.bands - 1 - n % c_.bands}, scratch);
    });
  }

 private:
  Index count() const { return a_.outer_size * sets_ * c_.bands; }

  const Arguments& a_;
  const Collection& c_;
  const TypedKernels& k_;
  const Index together_, sets_;  // key/value heads of a band, and how many such sets there are
};

// What the second pass needs of a call: of the row statistics no more than the first pass left for it.
Arguments for_second_pass(Arguments a) {
  for (int s = 0; s < kNumStatistics; ++s)
    if (s != kRowMaximum && s != kRowTotal && s != kTopBound) a.statistics[s] = nullptr;
  return a;
}

}  // namespace

bool attend(Arguments& a, const Kernels& kernels, ElementType type, Threads threads) {
  Job job(a);
  if (a.outer_size * a.num_heads * a.query_len == 0) return true;
  if (work_of(a) < kSerialWork) threads.count = 1;
  attend_all(job, a, kernels.of(type), threads);
  return job.finished();
}

bool weights(Arguments& a, const Kernels& kernels, ElementType type, const std::vector<Rectangle>& rectangles,
             Threads threads) {
  Job job(a);
  const TypedKernels& k = kernels.of(type);
  const Index rows = k.block_rows(a), size = type == ElementType::float64 ? 8 : 4;
  std::vector<Rectangle> parts;
  for (const Rectangle& whole : rectangles)
    for (Index begin = whole.query_begin; begin < whole.query_end; begin += rows) {
      Rectangle part = whole;
      part.query_begin = begin;
      part.query_end = std::min(begin + rows, whole.query_end);
      const Index skipped = (begin - whole.query_begin) * (whole.key_end - whole.key_begin);
      part.weights = static_cast<char*>(whole.weights) + skipped * size;
      parts.push_back(part);
    }
  if (parts.empty()) return true;
  const Index count = Index(parts.size());
  job.for_each(count, threads, 1, k.weights_scratch(a, rows),
               [&](Index n, char* scratch) { k.weights(a, parts[std::size_t(n)], scratch); });
  return job.finished();
}

bool collect(Arguments& a, Collection& c, bool attended, const Kernels& kernels, ElementType type, Threads threads) {
  Job job(a);
  const TypedKernels& k = kernels.of(type);
  if (work_of(a) < kSerialWork) threads.count = 1;
  c.attends = !attended && Bands(a, c, k).kept_scores_fit(threads);
  if (!attended && !c.attends) attend_all(job, a, k, threads);
  const Arguments rest = c.attends ? a : for_second_pass(a);
  if (!a.stop()) Bands(rest, c, k).collect(job, threads);
  return job.finished();
}

// Counts one head of each item where all see the same, and copies it.
bool count_viewers(Arguments& a, Index* viewers, Index* pairs, const Kernels& kernels, ElementType type,
                   Threads threads) {
  Job job(a);
  const TypedKernels& k = kernels.of(type);
  const Index distances = a.query_len + a.kv_len - 1, counted = k.heads_see_alike(a) ? 1 : a.num_heads;
  job.for_each(a.outer_size * counted, threads, 1, 64, [&](Index n, char*) {
    const Index item = n / counted, first = item * a.num_heads + n % counted;
    k.count_viewers(a, item, n % counted, viewers + first * a.kv_len, pairs + first * distances);
    for (Index head = first + 1; counted == 1 && head < (item + 1) * a.num_heads; ++head) {
      std::copy_n(viewers + first * a.kv_len, a.kv_len, viewers + head * a.kv_len);
      std::copy_n(pairs + first * distances, distances, pairs + head * distances);
    }
  });
  return job.finished();
}

Unlocked::~Unlocked() {
  while (interpreter_ends()) std::this_thread::sleep_for(std::chrono::hours(1));
  PyEval_RestoreThread(state_);
}

void remember_main_thread(unsigned long ident) { main_thread = ident; }

}  // namespace headwise
