// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "engine/cache.h"

#include <algorithm>
#include <cstddef>
#include <new>

#include "engine/kernel.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line

}  // namespace

void CosSinCache::Free::operator()(float* memory) const noexcept {
  ::operator delete[](memory, kAlignment);
}

CosSinCache::CosSinCache(const PhaseTable& phases, const Cache& options)
    : phases_(phases), row_size_(2 * phases.pairs) {
  if (options.positions < 0) {
    reject("[Rope] cache.positions must not be negative, got ", options.positions);
  }
  if (options.policy == CachePolicy::kNone || options.positions == 0) return;
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
  const std::int64_t row_bytes = row_size_ * static_cast<std::int64_t>(sizeof(float));
  if (options.positions > kMaxBytes / row_bytes) {
    reject("[Rope] the cache must stay below 2^40 bytes, got ", options.positions, " positions of ",
           row_bytes, " bytes");
  }
  table_.reset(static_cast<float*>(
      ::operator new[](static_cast<std::size_t>(options.positions * row_bytes), kAlignment)));
  positions_ = options.positions;
  if (options.policy == CachePolicy::kAll) {
    fill_rows_on_cpu(phases_, 0, positions_, table_.get());
  } else {
    const std::int64_t blocks = (positions_ + kBlock - 1) / kBlock;
    blocks_ = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(blocks));
  }
}

void CosSinCache::fill(std::size_t block) const noexcept {
  const std::lock_guard lock(mutex_);
  if (blocks_[block].load(std::memory_order_relaxed)) return;
  const std::int64_t first = static_cast<std::int64_t>(block) * kBlock;
  fill_rows_on_cpu(phases_, first, std::min(kBlock, positions_ - first),
                   table_.get() + first * row_size_);
  blocks_[block].store(true, std::memory_order_release);
}

}  // namespace rotary::internal
