// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "memory/pool.h"

#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace rotary::torch {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHugePage = 2 * kMiB;
constexpr std::size_t kDefaultLimit = 1024 * kMiB;

/// Up to an eighth more, so that calls of similar lengths share blocks. What is never written never
/// becomes memory.
std::size_t block_size(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* allocate(std::size_t size) {
#ifdef __linux__
  if (size >= kHugePage) {
    void* data = nullptr;
    const bool found = posix_memalign(&data, kHugePage, size) == 0;
    TORCH_CHECK_WITH(OutOfMemoryError, found, "[memory] not enough for results of ", size,
                     " bytes");
    madvise(data, size, MADV_HUGEPAGE);  // a wish: without it pages are small
    return data;
  }
#endif
  return c10::alloc_cpu(size);
}

void deallocate(void* data, [[maybe_unused]] std::size_t size) {
#ifdef __linux__
  if (size >= kHugePage) return std::free(data);
#endif
  c10::free_cpu(data);
}

std::size_t limit_of_environment() {
  const char* text = std::getenv("ROTARY_TORCH_MEMORY_LIMIT");
  if (text == nullptr) return kDefaultLimit;
  const std::string_view digits(text);
  std::size_t mib = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), mib);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  TORCH_CHECK_VALUE(is_number && mib <= SIZE_MAX / kMiB,
                    "[memory] $ROTARY_TORCH_MEMORY_LIMIT must be a number of MiB, got ", digits);
  return mib * kMiB;
}

}  // namespace

Pool& Pool::get() {
  static Pool* const pool = new Pool(limit_of_environment());
#if defined(__unix__) || defined(__APPLE__)
  // A child must not find the lock held by a thread that it does not have.
  [[maybe_unused]] static const int forks = pthread_atfork(
      [] { pool->mutex_.lock(); }, [] { pool->mutex_.unlock(); }, [] { pool->mutex_.unlock(); });
#endif
  return *pool;
}

void* Pool::take(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  std::optional<Block> block = take_idle(size);
  if (!block) block = {.data = allocate(size), .size = size};
  const std::lock_guard<std::mutex> lock(mutex_);
  in_use_.emplace(block->data, size);
  bytes_in_use_ += size;
  idle_.reserve(idle_.size() + in_use_.size());  // give_back() allocates nothing
  return block->data;
}

void Pool::give_back(void* data) noexcept {
  std::size_t limit = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = in_use_.find(data);
    idle_.push_back({.data = data, .size = found->second});
    bytes_idle_ += found->second;
    bytes_in_use_ -= found->second;
    in_use_.erase(found);
    limit = limit_;
  }
  shrink_to(limit);
}

std::optional<Pool::Block> Pool::take_idle(std::size_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto block = idle_.rbegin(); block != idle_.rend(); ++block) {
    if (block->size != size) continue;
    const Block found = *block;
    idle_.erase(std::next(block).base());
    bytes_idle_ -= size;
    return found;
  }
  return std::nullopt;
}

std::optional<Pool::Block> Pool::take_oldest_above(std::size_t limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes_idle_ <= limit) return std::nullopt;
  const Block oldest = idle_.front();
  idle_.erase(idle_.begin());
  bytes_idle_ -= oldest.size;
  return oldest;
}

void Pool::shrink_to(std::size_t limit) {
  // The system takes a while for it: without the lock.
  while (const auto block = take_oldest_above(limit)) deallocate(block->data, block->size);
}

MemoryUse Pool::use() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {.in_use = bytes_in_use_, .idle = bytes_idle_, .limit = limit_};
}

void Pool::set_limit(std::size_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    limit_ = bytes;
  }
  shrink_to(bytes);
}

void Pool::release() { shrink_to(0); }

MemoryUse memory_use() { return Pool::get().use(); }
void release_memory() { Pool::get().release(); }
void set_memory_limit(std::size_t bytes) { Pool::get().set_limit(bytes); }

}  // namespace rotary::torch
