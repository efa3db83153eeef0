// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Cos/sin table of the positions 0 .. n-1, filled at construction or on demand.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/phase_table.h"
#include "rotary/rope.h"

namespace rotary::internal {

/// Thread-safe. All memory is allocated at construction; under kHybrid, pages that no call needs
/// are never touched.
class CosSinCache {
 public:
  /// `phases` must outlive it. Throws std::invalid_argument for a negative size or one beyond 2^40
  /// bytes.
  CosSinCache(const PhaseTable& phases, const Cache& options);

  /// The cosines, then the sines of all pairs at a position (equal on all axes), without scale and
  /// growth; nullptr outside of the table.
  const float* row(std::int64_t position) const noexcept {
    if (position < 0 || position >= positions_) return nullptr;
    const auto block = static_cast<std::size_t>(position / kBlock);
    if (blocks_ && !blocks_[block].load(std::memory_order_acquire)) fill(block);
    return table_.get() + position * row_size_;
  }

 private:
  static constexpr std::int64_t kBlock = 64;  // positions filled at a time on demand
  struct Free {
    void operator()(float* memory) const noexcept;
  };
  void fill(std::size_t block) const noexcept;

  const PhaseTable& phases_;
  std::int64_t positions_ = 0;
  std::int64_t row_size_ = 0;
  std::unique_ptr<float[], Free> table_;
  std::unique_ptr<std::atomic<bool>[]> blocks_;  // kHybrid: whether each block is filled
  mutable std::mutex mutex_;                     // held while a block is filled
};

}  // namespace rotary::internal
