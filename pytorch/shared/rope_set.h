// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ropes of a text, and a cache of them, one per process.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pytorch/shared/rotation_op.h"
#include "rotary/cuda.h"
#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/threads.h"
#include "rotary/torch_rope.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace rotary::torch {

/// A rope for the operators, and those that its gradients need.
class RopeSet {
 public:
  /// Throws std::invalid_argument for a malformed text.
  RopeSet(std::string_view text, const Threads& threads);

  const std::string& text() const noexcept { return text_; }
  int threads() const noexcept { return threads_; }
  OneAxisPositions one_axis() const noexcept { return one_axis_; }

  const Rope& rope() const noexcept { return rope_; }
  /// Multiplies by z / |z|^2: the transpose of unrotate.
  const Rope& reciprocal() const noexcept { return reciprocal_; }
  /// All frequencies 0, with the same pairs and axes: for gradients of frequencies on a device.
  const Rope& zero_frequency() const noexcept { return zero_frequency_; }
  /// Growth from position 0, no scale, one pairing throughout: for gradients of positions.
  const Rope& at_origin(Pairing pairing) const noexcept {
    return pairing == Pairing::kHalf ? half_at_origin_ : interleaved_at_origin_;
  }

  const Frequencies& frequencies() const noexcept { return rope_.frequencies(); }
  const HeadLayout& layout() const noexcept { return rope_.layout(); }
  bool grows() const noexcept { return !frequencies().growth.empty(); }

 private:
  std::string text_;
  int threads_ = 1;
  OneAxisPositions one_axis_ = OneAxisPositions::kRefused;
  Rope rope_;
  Rope reciprocal_;
  Rope zero_frequency_;
  Rope half_at_origin_;
  Rope interleaved_at_origin_;
};

/// op(operands). The adjoint of a shift by d is kShiftAdjoint with positions -d.
void apply(RotationOp op, const RopeSet& ropes, std::span<const Operand> operands,
           const Positions& positions, const Stream& stream);

/// Sets of ropes by text and number of threads. Set is a RopeSet, made of a text and that number.
template <typename Set>
class RopeCache {
 public:
  /// Made at the first call with a text. Later ones of the same thread take neither a lock nor
  /// memory, if the text is one of its last four.
  static std::shared_ptr<const Set> find(std::string_view text, int threads) {
    static RopeCache& cache = *new RopeCache;  // leaked: CUDA may be torn down before statics are
#if defined(__unix__) || defined(__APPLE__)
    // After fork() the child must not find the lock held by a thread that it does not have.
    [[maybe_unused]] static const int forks = pthread_atfork(
        [] { cache.mutex_.lock(); }, [] { cache.mutex_.unlock(); }, [] { cache.mutex_.unlock(); });
#endif
    thread_local Recent recent;
    if (auto set = recent.find(text, threads)) return set;
    auto set = cache.find_or_make(text, threads);
    recent.add(set);
    return set;
  }

 private:
  /// A model has a few texts per layer type. The cache is emptied at this size, which only a
  /// context that grows step by step reaches.
  static constexpr std::size_t kMaxSets = 1024;

  struct Recent {
    std::array<std::shared_ptr<const Set>, 4> sets{};
    std::size_t next = 0;

    std::shared_ptr<const Set> find(std::string_view text, int threads) const {
      for (const auto& set : sets) {
        if (set && set->threads() == threads && set->text() == text) return set;
      }
      return nullptr;
    }
    void add(std::shared_ptr<const Set> set) {
      sets[next] = std::move(set);
      next = (next + 1) % sets.size();
    }
  };

  std::shared_ptr<const Set> find_or_make(std::string_view text, int threads) {
    std::string key = std::to_string(threads) + ' ';
    key += text;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sets_.find(key);
    if (found != sets_.end()) return found->second;
    if (sets_.size() >= kMaxSets) sets_.clear();
    auto made = std::make_shared<const Set>(text, threads);
    sets_.emplace(std::move(key), made);
    return made;
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Set>> sets_;
};

}  // namespace rotary::torch
