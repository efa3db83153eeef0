// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The interface between the calls of kv_cache.h and the engines.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/kernel.h"
#include "engine/norm_kernel.h"
#include "rotary/kv_cache.h"
#include "rotary/operands.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// A StoredTensor in the form that the engine takes. Strides count elements.
struct HeadStore {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t block_size = 1;
  std::int64_t block_stride = 0, token_stride = 0, head_stride = 0;
  std::int64_t heads = 0, head_dim = 0;
  ScaleUse use = ScaleUse::kDivide;
  const float* scale = nullptr;  // of head h: scale[h * scale_stride]; null: 1
  std::int64_t scale_stride = 0;
  float* computed = nullptr;  // [blocks, block_size, heads, groups]
  std::int64_t computed_block_stride = 0, computed_token_stride = 0, computed_head_stride = 0,
               computed_group_stride = 0;
  std::int64_t groups = 1;

  bool is_quantized() const noexcept { return is_float8(dtype) || dtype == DType::kInt8; }
};

/// Heads that are stored as they are, such as values: [batch, tokens, heads, head_dim].
struct StoreCopy {
  ConstTensorView from;
  HeadStore to;
};

/// A rotation some of whose results are stored.
struct RotateStoreParams {
  /// The `out` of a stored operand has no memory. A loaded one has no input either: it is read from
  /// its store, and float32 if that is quantised.
  RotateParams rotation;
  std::array<const HeadStore*, kMaxOperands> stores{};  // of each operand; null: not stored
  bool loads = false;                                   // stored operands are read from their store
  std::span<const StoreCopy> copies{};
  const NormParams* norm = nullptr;  // of all operands; its rotation is not used
  /// [batch * tokens], -1: not stored; null: token t of batch row b in slot b * tokens + t.
  const std::int64_t* slots = nullptr;
};

/// Allocates scratch memory, some 64 KiB for each thread, and what the norm does. There is at least
/// one operand.
void rotate_store_on_cpu(const RotateStoreParams& params, const Threads& threads);

/// The copies alone.
void store_on_cpu(std::span<const StoreCopy> copies, const std::int64_t* slots,
                  const Threads& threads);

/// Parameters of an append on CUDA. All memory is the device's, slots included.
struct AppendParams {
  const RotateParams* rotation = nullptr;               // null: there are copies alone
  std::array<const HeadStore*, kMaxOperands> stores{};  // of each operand; null: not stored
  std::span<const StoreCopy> copies{};                  // at most one
  const Slots& slots;
  std::int64_t num_slots = 0;
  const NormParams* norm = nullptr;  // of all operands; its rotation is not used
};

/// As in kernel.h.
void append_on_cuda(std::string_view function, const AppendParams& params, const Stream& stream);

}  // namespace rotary::internal
