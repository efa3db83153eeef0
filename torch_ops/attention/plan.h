// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a call of attend() comes down to: a kernel, and as little mask as it needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "rotary/torch_attention.h"

namespace rotary::torch {

/// Throws c10::ValueError for what does not fit.
void check_attend(std::string_view function, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, const AttendOptions& options);

struct Plan {
  enum class Kernel {
    kNone,        // there are no keys
    kFused,       // the library's own
    kSdpa,        // scaled_dot_product_attention
    kFlash,       // the flash kernel itself: windows, packed sequences, queries behind a cache
    kEfficient,   // the memory-efficient kernel itself: packed sequences of 32 bits
    kBySequence,  // packed sequences one after the other
  };
  Kernel kernel = Kernel::kSdpa;
  const char* backend = "math";
  /// Without those that no query sees.
  at::Tensor keys{};
  at::Tensor values{};
  /// For kSdpa.
  std::optional<at::Tensor> mask{};  // [batch or 1, heads or 1, queries or 1, keys], bool or bias
  std::optional<at::Tensor> sees{};  // [batch or 1, 1, queries or 1, 1]: false where no key is seen
  bool causal = false;
  bool grouped = false;
};

/// The first head of x as if q had as many of it: for shapes, not for numbers.
at::Tensor in_all_heads(const at::Tensor& x, const at::Tensor& q);

/// Leaves in `options` what is still to be done for the plan's keys. `first` may be negative here.
Plan make_plan(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               AttendOptions& options);

/// Which keys are seen: what broadcasts to [batch, 1, queries, keys]; nothing where all are.
std::optional<at::Tensor> make_visible(const at::Tensor& q, const at::Tensor& k,
                                       const AttendOptions& options);

}  // namespace rotary::torch
