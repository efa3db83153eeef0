// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Caches of keys and values, quantised or not (rotary/kv_cache.h), as PyTorch's tensors. The
// library's engine stores on the CPU, PyTorch's operators elsewhere, with the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "rotary/kv_cache.h"
#include "rotary/tensor.h"

namespace rotary::torch {

using OptionalTensor = std::optional<at::Tensor>;

/// How a cache is quantised, as operators take it.
struct QuantizeOptions {
  std::string_view type = "auto";  // of a cache of uint8: e4m3 or e5m2
  std::string_view use = "divide";
};

/// Heads as they are stored: [blocks, block_size, heads, head_dim] or [slots, heads, head_dim].
struct CacheStore {
  at::Tensor data{};
  DType type = DType::kFloat32;
  OptionalTensor scale{};     // float32, [1] or [heads]
  OptionalTensor computed{};  // float32, written
  ScaleUse use = ScaleUse::kDivide;

  bool is_quantized() const { return is_float8(type) || type == DType::kInt8; }
};

/// Throws c10::ValueError for a type that is none, and for scales of another type or device.
CacheStore make_store(std::string_view function, const at::Tensor& data,
                      const OptionalTensor& scale, const OptionalTensor& computed,
                      const QuantizeOptions& options);

/// Slots as operators take them: flat, or with a block table the index of each token in its
/// sequence.
struct CacheSlots {
  at::Tensor indices{};
  OptionalTensor block_table{};
  OptionalTensor sequences{};
};

StoredTensor view_of(std::string_view function, const CacheStore& store);
Slots view_of(std::string_view function, const CacheSlots& slots);

// ---- By PyTorch's operators ---------------------------------------------------------------------

/// The slot of each token, [n]; negative: not stored. `tokens` are those of a batch row.
at::Tensor flat_slots(const CacheSlots& slots, const CacheStore& store, std::int64_t tokens);

/// Throws what put() does not check, before anything is written. Waits for the device.
void check_put(std::string_view function, const CacheStore& store, const at::Tensor& heads,
               const at::Tensor& slots);

/// Heads [n, heads, head_dim] into those slots. Of repeated slots any is stored.
void put(const CacheStore& store, const at::Tensor& heads, const at::Tensor& slots);

/// Heads [n, heads, head_dim] of those slots, float32 where they are quantised. A negative slot
/// reads slot 0.
at::Tensor take(const CacheStore& store, const at::Tensor& slots);

/// Quantised elements and, of `groups` groups of each head, their scales.
struct Quantized {
  at::Tensor data{};
  at::Tensor scales{};
};
Quantized quantize_groups(const at::Tensor& x, DType type, std::int64_t groups, ScaleUse use);

at::ScalarType scalar_type_of(DType type);

}  // namespace rotary::torch
