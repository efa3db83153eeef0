// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Kernel selection of attend(): a call reduced to a kernel and as little mask as it needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "rotary/transformer/attention.h"

namespace rotary::transformer {

/// Throws c10::ValueError for wrong arguments.
void check_attend(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, const AttendOptions& options);

struct AttentionCall {
  enum class Kernel {
    kNoKeys,       // nothing to attend to
    kFused,        // the library's own
    kSdpa,         // scaled_dot_product_attention
    kFlash,        // PyTorch's flash kernel: windows, packed sequences, queries behind a cache
    kEfficient,    // PyTorch's memory-efficient kernel: packed sequences of float32
    kPerSequence,  // packed sequences one after the other
  };
  Kernel kernel = Kernel::kSdpa;
  const char* backend = "math";
  /// Without keys that no query sees.
  at::Tensor keys{};
  at::Tensor values{};
  /// For kSdpa: [batch or 1, heads or 1, queries or 1, keys], bool or added to the scores.
  std::optional<at::Tensor> mask{};
  /// [batch or 1, 1, queries or 1, 1]: false for queries that see no key, whose result is 0.
  std::optional<at::Tensor> any_visible{};
  bool causal = false;
  bool grouped = false;  // grouped-query attention: fewer heads of keys than of queries
};

/// The first head of x, expanded to the number of heads of q: for shapes, not for values.
at::Tensor expand_heads(const at::Tensor& x, const at::Tensor& q);

/// Narrows `options` to the call's keys. Their `first` may be negative then.
AttentionCall select_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            AttendOptions& options);

/// Whether that is certain: masks may still hide some keys.
bool every_query_sees_a_key(const at::Tensor& q, const at::Tensor& k, const AttendOptions& options);

/// Which keys are visible, broadcastable to [batch, 1, queries, keys], bool; none where all are.
std::optional<at::Tensor> make_attention_mask(const at::Tensor& q, const at::Tensor& k,
                                              const AttendOptions& options);

}  // namespace rotary::transformer
