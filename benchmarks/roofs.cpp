// Measures what the machine can do at most: fused multiply-adds, or reading from memory.
//
//     roofs fma32|fma64|read THREADS SECONDS
//
// prints the best rate seen: GFLOP/s or GB/s. Vectors are as wide as the compiler's flags allow.

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, accumulators = 24;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, accumulators = 12;
#else
constexpr int vector_bytes = 16, accumulators = 24;
#endif

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

volatile double sink;  // keeps results alive

template <class T>
double multiply_add(long rounds) {
  typedef T Vector __attribute__((vector_size(vector_bytes)));
  constexpr int lanes = vector_bytes / sizeof(T);
  volatile T given = T(0.5);
  const Vector factor = Vector{} + given, more = Vector{} + given;
  Vector sums[accumulators];
  for (Vector& sum : sums) sum = Vector{} + given;  // each read anew: the compiler can't tell that they agree
  for (long r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int a = 0; a < accumulators; ++a) sums[a] = sums[a] * factor + more;
  }
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  sink = double(total[0]);
  return 2.0 * lanes * accumulators * double(rounds);
}

double read_all(const char* begin, size_t bytes) {
  typedef unsigned long Vector __attribute__((vector_size(vector_bytes)));
  constexpr size_t unroll = 8;
  Vector sums[unroll] = {};
  for (size_t i = 0; i + unroll * vector_bytes <= bytes; i += unroll * vector_bytes) {
#pragma GCC unroll 8
    for (size_t u = 0; u < unroll; ++u) {
      Vector loaded;
      std::memcpy(&loaded, begin + i + u * vector_bytes, vector_bytes);
      sums[u] += loaded;
    }
  }
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  sink = double(total[0]);
  return double(bytes);
}

// Runs work(thread) on all threads at once, again and again; returns the best total per second.
template <class Work>
double best_rate(int threads, double budget, Work work) {
  double best = 0;
  for (const auto start = Clock::now(); best == 0 || seconds_since(start) < budget;) {
    std::atomic<int> ready{0};
    std::vector<double> done(threads), spent(threads);
    auto body = [&](int t) {
      for (++ready; ready < threads;) {
      }
      const auto begin = Clock::now();
      done[t] = work(t);
      spent[t] = seconds_since(begin);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
    body(0);
    for (auto& other : others) other.join();
    double total = 0, longest = 0;
    for (int t = 0; t < threads; ++t) {
      total += done[t];
      longest = spent[t] > longest ? spent[t] : longest;
    }
    best = total / longest > best ? total / longest : best;
  }
  return best;
}

double best_read(int threads, double budget) {
  constexpr size_t part = size_t{128} << 20;
  const size_t bytes = part * size_t(threads);
  char* memory = static_cast<char*>(std::aligned_alloc(size_t{1} << 21, bytes));
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  const double rate = best_rate(threads, budget, [&](int t) { return read_all(memory + part * size_t(t), part); });
  std::free(memory);
  return rate;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string what = arguments[1];
  const int threads = std::atoi(arguments[2]);
  const double budget = std::atof(arguments[3]);
  constexpr long rounds = 200'000;  // a millisecond or two
  double rate = 0;
  if (what == "fma32") rate = best_rate(threads, budget, [](int) { return multiply_add<float>(rounds); });
  if (what == "fma64") rate = best_rate(threads, budget, [](int) { return multiply_add<double>(rounds); });
  if (what == "read") rate = best_read(threads, budget);
  std::printf("%.3f\n", rate * 1e-9);
}
