// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of calls that store heads (kv_cache.h), checked and in the form that the engine
// takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/store_kernel.h"
#include "rotary/kv_cache.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"

namespace rotary::internal {

/// The memory of a call. check() throws if any that is written overlaps other memory.
class CallMemory {
 public:
  explicit CallMemory(std::string_view function, Device device = {}) noexcept
      : function_(function), device_(device) {}

  bool is_on_host() const noexcept { return device_.type == DeviceType::kCpu; }

  /// Throw for memory that is missing, misaligned or not on the device. Views of rank 0 do not
  /// count.
  void add_read(std::string_view name, const ConstTensorView& view);
  void add_written(std::string_view name, const ConstTensorView& view);
  void add_read(const Positions& positions);
  void add(const Slots& slots);
  void check() const;

 private:
  struct Entry {
    std::string_view name;
    ConstTensorView view;
    bool is_written;
  };
  void add(std::string_view name, const ConstTensorView& view, bool is_written);

  std::string_view function_;
  Device device_;
  std::vector<Entry> entries_;
};

/// A StoredTensor in two forms: for the engine, and as [blocks, block_size, heads, head_dim].
struct CheckedStore {
  HeadStore store{};
  std::int64_t blocks = 0;
};

/// Throws unless the tensor stores heads of `type` (none: whatever it holds). `name` is "keys" or
/// the like. Adds its memory to `memory`.
CheckedStore check_store(std::string_view function, std::string_view name,
                         const StoredTensor& given, std::optional<DType> type, CallMemory& memory);

/// Throws unless the store holds tokens of [heads, head_dim].
void check_store_heads(std::string_view function, std::string_view name, const HeadStore& store,
                       std::int64_t heads, std::int64_t head_dim);

/// Throws unless slots, block table and sequences have types and shapes that fit the tokens.
void check_slots(std::string_view function, const Slots& slots, std::int64_t batch,
                 std::int64_t tokens);

/// The slot of each token, [batch * tokens]; -1 for those that are not stored. Throws for slots
/// beyond the blocks.
std::vector<std::int64_t> resolve_slots(std::string_view function, const Slots& slots,
                                        std::int64_t batch, std::int64_t tokens,
                                        const CheckedStore& store);

}  // namespace rotary::internal
