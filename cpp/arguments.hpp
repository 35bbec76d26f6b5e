// The kernel contract: what the boundary hands in, and what it may expect back.
//
//   query  (outer, num_heads,    query_len, head_dim)     row i of head h reads key/value head h / group,
//   key    (outer, num_kv_heads, kv_len,    head_dim)     group = num_heads / num_kv_heads
//   value  (outer, num_kv_heads, kv_len,    value_dim)
//   output (outer, num_heads,    query_len, value_dim)
//
// One unit of work is a range of *rows* of one (outer item, key/value head). The rows of a group of heads lie
// one after another, so that grouped heads read their keys once:
//
//        head 0 of the group     head 1               ...
//   rows [0 .. query_len)        [query_len .. 2·query_len)
//
// Everything here that has code is inlined into its caller, so that no copy of it, compiled for one instruction set,
// can be linked into another.
//
// Kernels allocate nothing, start no threads and throw nothing: scratch is handed in, and a kernel that is
// asked to stop returns early. Pointers may be misaligned and strides may have any sign.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise {

using Index = std::int64_t;

constexpr Index kUnbounded = INT64_MAX;

// Operands of the mask's program that may wait for their partner.
constexpr int kMaskDepth = 8;

// Which kernel a call goes to depends on its rows for each key/value head, query_len · group: fewer than this lie side
// by side, their lanes along dimensions; more lie across lanes, in strips; and up to so many share the keys among
// threads.
constexpr Index kFewRows = 13, kSplitRows = 64;

// The working precision is float32 for every type but float64.
enum class ElementType : std::uint8_t { float32, float64, float16, bfloat16 };

// An operand seen through strides, all in bytes. `outer` holds one offset for each outer item.
struct Strided {
  const char* data = nullptr;  // null: not given
  const Index* outer = nullptr;
  Index head = 0, row = 0, column = 0;
  ElementType type = ElementType::float32;
  bool swapped = false;  // the other byte order

  [[gnu::always_inline]] const char* at(Index item, Index h, Index i) const {
    return data + outer[item] + h * head + i * row;
  }
};

// One number per row, in an array (outer, num_heads, query_len): int64 where it is a count, else of the working
// precision.
enum Statistic : int {
  kLse,
  kMaxScore,
  kEntropy,
  kMaxWeight,
  kArgmax,
  kDistance,
  kSelfWeight,
  kPreviousWeight,
  kNextWeight,
  kFirstWeight,
  kSinkWeight,
  kOutputNorm,
  kVisibleCount,
  kVisibleDistance,
  kRowMaximum,  // maximum (in the units of the scores) and total of a row, from which `weights` recomputes exact
                // weights
  kRowTotal,
  kTopBound,      // so many keys as `bounding` says have at least this score, in the units of the scores
  kComputedKeys,  // keys that a row's scores were computed for, hidden ones included
  kNumStatistics
};

struct StatisticFacts {
  const char* name;
  bool is_count;
};

constexpr StatisticFacts kStatistics[kNumStatistics] = {
    {"lse", false},          {"max_score", false},       {"entropy", false},     {"max_weight", false},
    {"argmax", true},        {"distance", false},        {"self_weight", false}, {"previous_weight", false},
    {"next_weight", false},  {"first_weight", false},    {"sink_weight", false}, {"output_norm", false},
    {"visible_count", true}, {"visible_distance", true}, {"row_maximum", false}, {"row_total", false},
    {"top_bound", false},    {"computed_keys", true},
};

// Who may attend, as a small program in postfix order: a leaf says which keys a row sees, `all_of` and `any_of` take
// the two on top. An empty program lets every row see every key.
//
//   band     -left <= j - position <= right
//   ranges   first <= j < last, the two numbers (Index) standing at `query`, row by row
//   same     the number (Index) at `query`, row by row, equals the one at `key`, key by key
//   array    the byte at `query`, row by row, keys in columns, is not 0
struct MaskStep {
  enum Kind : int { band, ranges, same, array, all_of, any_of } kind;
  Index left = kUnbounded, right = kUnbounded;
  Strided query, key;
};

// Asked by the kernels at every tile, from any thread; where it says true, they return early.
struct Stop {
  bool (*asked)(void* context) = nullptr;
  void* context = nullptr;
  [[gnu::always_inline]] bool operator()() const { return asked && asked(context); }
};

struct Arguments {
  Strided query, key, value, bias;
  const MaskStep* mask = nullptr;
  int mask_steps = 0;
  char* output = nullptr;
  Strided output_layout;  // strides of `output`
  void* statistics[kNumStatistics] = {};

  Index outer_size = 1, num_heads = 1, num_kv_heads = 1;
  Index query_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;

  double scale = 1.0, softcap = 0;      // no cap: 0
  const double* sink_logits = nullptr;  // one for each head
  const double* slopes = nullptr;       // one for each head: the bias -slope · |distance|
  // [num_heads][2 · reach + 1]: the bias of each j - position, clipped at the ends.
  const double* relative_table = nullptr;
  Index reach = 0;
  const Index* query_offset = nullptr;  // one for each outer item: position of query i is i + query_offset
  Index first_keys = 1;                 // how many keys `first_weight` adds up
  Index bounding = 1;                   // how many keys `top_bound` is to leave

  Stop stop;

  [[gnu::always_inline]] Index group() const { return num_heads / num_kv_heads; }
  [[gnu::always_inline]] Index rows() const { return group() * query_len; }
  // What the statistics asked for need: numbers from every weight as it is made, single weights, counts of what is
  // visible, or anything at all beyond a row's maximum and total.
  [[gnu::always_inline]] bool weighs() const { return statistics[kEntropy] || statistics[kDistance]; }
  [[gnu::always_inline]] bool singles_out() const {
    return statistics[kSelfWeight] || statistics[kPreviousWeight] || statistics[kNextWeight] ||
           statistics[kFirstWeight];
  }
  [[gnu::always_inline]] bool counts_visible() const {
    return statistics[kVisibleCount] || statistics[kVisibleDistance];
  }
  [[gnu::always_inline]] bool observes() const {
    return weighs() || singles_out() || counts_visible() || statistics[kArgmax] || statistics[kComputedKeys];
  }
  [[gnu::always_inline]] bool reports() const {
    for (const void* statistic : statistics)
      if (statistic) return true;
    return false;
  }
  // Whether rows have biases of their own, beside the slopes', which are one formula for all.
  [[gnu::always_inline]] bool rows_biased() const { return bias.data || relative_table; }
  [[gnu::always_inline]] bool biased() const { return rows_biased() || slopes; }
};

// Rows [begin, end) of key/value head `kv_head` of outer item `item`.
struct RowRange {
  Index item, kv_head, begin, end;
};

// A rectangle of exact weights: queries of one head, keys [key_begin, key_end), written to `weights` query by query.
struct Rectangle {
  Index item, head, query_begin, query_end, key_begin, key_end;
  void* weights;
};

}  // namespace headwise
