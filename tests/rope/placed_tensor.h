// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tensors [batch, tokens, heads, head_dim] in the memory layouts of callers, between canaries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/elements.h"
#include "rotary/tensor.h"

namespace rotary {

enum class Layout : std::uint8_t {
  kContiguous,    // [batch, tokens, heads, head_dim]
  kRank3,         // [tokens, heads, head_dim], batch 1
  kHeadsFirst,    // [batch, heads, tokens, head_dim] in memory
  kPackedQkv,     // the keys of [batch, tokens, 3, heads, head_dim]
  kHeadwiseQkv,   // the keys of [batch, tokens, heads, 3, head_dim]
  kInnerStride2,  // every second element
  kBackwards,     // tokens and batch rows from the end of the memory to its beginning
};

inline std::string_view name_of(Layout layout) {
  constexpr std::array<std::string_view, 7> kNames = {"contiguous", "rank3",        "heads_first",
                                                      "packed_qkv", "headwise_qkv", "inner_stride",
                                                      "backwards"};
  return kNames[static_cast<std::size_t>(layout)];
}

struct Sizes {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t count() const { return batch * tokens * heads * head_dim; }
};

class PlacedTensor {
 public:
  /// All memory, inside the view and outside, holds numbers between 1/4 and 1 that depend on
  /// `seed`, with either sign. The view begins `misaligned` elements past a boundary of 16 bytes.
  PlacedTensor(Layout layout, DType dtype, const Sizes& sizes, unsigned seed,
               std::int64_t misaligned = 1)
      : sizes_(sizes),
        memory_(dtype, static_cast<std::size_t>(spread(layout) * sizes.count() + 2 * kMargin)),
        first_(kMargin / 2 + misaligned) {
    const auto [batch, tokens, heads, head_dim] = sizes;
    const std::int64_t token = heads * head_dim;
    strides_ = {tokens * token, token, head_dim, 1};
    if (layout == Layout::kHeadsFirst) strides_ = {tokens * token, head_dim, tokens * head_dim, 1};
    if (layout == Layout::kPackedQkv) {
      strides_ = {3 * tokens * token, 3 * token, head_dim, 1};
      first_ += token;
    }
    if (layout == Layout::kHeadwiseQkv) {
      strides_ = {3 * tokens * token, 3 * token, 3 * head_dim, 1};
      first_ += head_dim;
    }
    if (layout == Layout::kInnerStride2)
      strides_ = {2 * tokens * token, 2 * token, 2 * head_dim, 2};
    if (layout == Layout::kBackwards) {
      if (sizes.count() > 0) first_ += (batch * tokens - 1) * token;
      strides_ = {-tokens * token, -token, head_dim, 1};
    }
    view_ = {memory_.data(static_cast<std::size_t>(first_)),
             dtype,
             4,
             {batch, tokens, heads, head_dim},
             strides_,
             {}};
    if (layout == Layout::kRank3) {
      view_.rank = 3;
      view_.shape = {tokens, heads, head_dim, 0};
      view_.strides = {strides_[1], strides_[2], strides_[3], 0};
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      seed = seed * 1664525u + 1013904223u;  // the usual linear congruential generator
      const double size = 0.25 + 0.75 * (seed >> 8) / (1 << 24);
      memory_.set(i, (seed & 64) != 0 ? size : -size);
    }
  }
  PlacedTensor(const PlacedTensor&) = delete;
  PlacedTensor& operator=(const PlacedTensor&) = delete;
  PlacedTensor(PlacedTensor&&) = delete;
  PlacedTensor& operator=(PlacedTensor&&) = delete;
  ~PlacedTensor() = default;

  const TensorView& view() const { return view_; }
  const Sizes& sizes() const { return sizes_; }
  const reference::Elements& memory() const { return memory_; }
  reference::Elements snapshot() const { return memory_; }

  /// Index in memory() of each element, in the order batch, token, head, dim.
  std::vector<std::size_t> indices() const {
    std::vector<std::size_t> indices(static_cast<std::size_t>(sizes_.count()));
    std::size_t n = 0;
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      for (std::int64_t t = 0; t < sizes_.tokens; ++t) {
        for (std::int64_t h = 0; h < sizes_.heads; ++h) {
          const std::int64_t head = first_ + b * strides_[0] + t * strides_[1] + h * strides_[2];
          for (std::int64_t i = 0; i < sizes_.head_dim; ++i) {
            indices[n++] = static_cast<std::size_t>(head + i * strides_[3]);
          }
        }
      }
    }
    return indices;
  }

  /// The elements in that order.
  std::vector<long double> values() const {
    const auto from = indices();
    std::vector<long double> values(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      values[i] = static_cast<long double>(memory_.get(from[i]));
    }
    return values;
  }

  /// Restores a snapshot().
  void restore(const reference::Elements& snapshot) { memory_ = snapshot; }

  /// Copies the elements of another tensor of the same sizes, of any layout.
  void assign(const PlacedTensor& other) {
    const auto from = other.indices();
    const auto to = indices();
    for (std::size_t i = 0; i < to.size(); ++i) memory_.set(to[i], other.memory().get(from[i]));
  }

  /// The bits of each element in the order of indices().
  std::vector<std::uint64_t> bits() const {
    std::vector<std::uint64_t> bits;
    for (const std::size_t index : indices()) bits.push_back(memory_.bits(index));
    return bits;
  }

 private:
  static constexpr std::int64_t kMargin = 32;
  /// Memory for each element of the view.
  static std::int64_t spread(Layout layout) {
    if (layout == Layout::kPackedQkv || layout == Layout::kHeadwiseQkv) return 3;
    return layout == Layout::kInnerStride2 ? 2 : 1;
  }
  Sizes sizes_;
  reference::Elements memory_;
  std::int64_t first_;
  Dims strides_{};
  TensorView view_{};
};

}  // namespace rotary
