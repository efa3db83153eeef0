// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Blocks of memory that are used again.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rotary/torch_memory.h"

namespace rotary::torch {

/// The pool of the process. It never ends: tensors may be freed while the process does.
class Pool {
 public:
  static Pool& get();

  /// At least `bytes`, aligned to 64 or more; blocks of 2 MiB and more lie on huge pages where the
  /// system has them. Throws c10::Error where there is no memory.
  void* take(std::size_t bytes);
  void give_back(void* data) noexcept;

  MemoryUse use();
  void set_limit(std::size_t bytes);
  void release();

 private:
  struct Block {
    void* data = nullptr;
    std::size_t size = 0;
  };

  explicit Pool(std::size_t limit) : limit_(limit) {}
  std::optional<Block> take_idle(std::size_t size);
  std::optional<Block> take_oldest_above(std::size_t limit);
  void shrink_to(std::size_t limit);

  std::mutex mutex_;
  std::size_t limit_;
  std::size_t bytes_in_use_ = 0;
  std::size_t bytes_idle_ = 0;
  std::unordered_map<void*, std::size_t> in_use_{};
  std::vector<Block> idle_{};  // given back last: at the end
};

}  // namespace rotary::torch
