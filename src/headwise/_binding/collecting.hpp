// What a second pass is to collect: a dict of arrays and numbers, named as in Collection.
#pragma once

#include "collection.hpp"
#include "parsing.hpp"

namespace headwise {

// An array of whole numbers, held while it is read or written.
class Counts {
 public:
  Counts(nb::handle array, Index size) : buffer_(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) {
    require(bool(buffer_) && is_index(letter_of(buffer_.format())) && buffer_.bytes() == size * Index(sizeof(Index)),
            "size of counts");
  }
  Index* numbers() const { return reinterpret_cast<Index*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

class Collecting {
 public:
  Collection c;

  Collecting(const Parsed& whole, const nb::dict& given) : a_(whole.a), given_(given) {
    size_ = whole.working() == ElementType::float64 ? 8 : 4;
    c.band_queries = number("band_queries");
    require(c.band_queries > 0 && a_.query_len > 0 && a_.kv_len > 0, "bands");
    c.bands = (a_.query_len + c.band_queries - 1) / c.band_queries;
    const Index heads = a_.outer_size * a_.num_heads, rows = heads * a_.query_len;
    c.received = numbers("received", heads * c.bands * a_.kv_len);
    c.recent = numbers("recent", heads * c.bands * a_.kv_len);
    if (c.recent) c.recent_from = counts(given_["recent_from"], heads);
    c.offsets = numbers("offsets", heads * c.bands * c.offsets_size(a_));
    if (given_.contains("products"))
      c.products = static_cast<double*>(
          hold(given_["products"], a_.outer_size * c.bands * a_.num_heads * a_.num_heads * Index(sizeof(double))));
    if (given_.contains("block_sums")) set_blocks(heads);
    if (given_.contains("top_weights")) {
      c.top = number("top");
      require(c.top > 0, "top");
      c.top_weights = numbers("top_weights", rows * c.top);
      c.top_keys = counts(given_["top_keys"], rows * c.top);
    }
    if (given_.contains("stripes")) set_stripes(nb::cast<nb::list>(given_["stripes"]), rows);
  }
  Collecting(const Collecting&) = delete;

 private:
  void set_blocks(Index heads) {
    c.block_queries = number("block_queries");
    c.block_keys = number("block_keys");
    require(c.block_queries > 0 && c.block_keys > 0, "blocks");
    require(c.bands == 1 || c.band_queries % c.block_queries == 0, "a block in two bands");
    c.block_sums = numbers("block_sums", heads * c.blocks(a_));
    c.block_maxima = numbers("block_maxima", heads * c.blocks(a_));
  }

  void set_stripes(const nb::list& stripes, Index rows) {
    for (nb::handle entry : stripes) {
      const auto arrays = nb::cast<nb::tuple>(entry);
      Stripe stripe{};
      stripe.keys = counts(arrays[0], a_.outer_size * a_.kv_len);
      stripe.first = counts(arrays[1], a_.outer_size * a_.query_len);
      stripe.last = counts(arrays[2], a_.outer_size * a_.query_len);
      for (Index k = 0; k < a_.outer_size * a_.query_len; ++k)
        require(0 <= stripe.first[k] && stripe.last[k] <= a_.kv_len, "stripes");
      stripe.out = hold(arrays[3], rows * size_);
      stripes_.push_back(stripe);
    }
    c.stripes = stripes_.data();
    c.stripe_count = Index(stripes_.size());
  }

  Index number(const char* name) const { return nb::cast<Index>(given_[name]); }
  void* numbers(const char* name, Index count) {
    return given_.contains(name) ? hold(given_[name], count * size_) : nullptr;
  }
  void* hold(nb::handle array, Index bytes) {
    held_.push_back(std::make_unique<Buffer>(array, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE));
    require(bool(*held_.back()) && held_.back()->bytes() == bytes, "size of what is collected");
    return held_.back()->data();
  }
  Index* counts(nb::handle array, Index size) {
    counts_.push_back(std::make_unique<Counts>(array, size));
    return counts_.back()->numbers();
  }

  const Arguments& a_;
  const nb::dict& given_;
  Index size_;
  std::vector<Stripe> stripes_;
  std::vector<std::unique_ptr<Buffer>> held_;
  std::vector<std::unique_ptr<Counts>> counts_;
};

}  // namespace headwise
