// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/rope_cache.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <array>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace rotary::torch {
namespace {

/// A model has a few texts per layer type. The cache is emptied at this size, which only a context
/// that grows step by step reaches.
constexpr std::size_t kMaxRopes = 1024;

/// Runs on PyTorch's threads: a second pool would compete with them.
Threads torch_threads(int count) {
  return {.count = count, .run = [](int tasks, const std::function<void(int)>& task) {
            at::parallel_for(0, tasks, 1, [&task](std::int64_t begin, std::int64_t end) {
              for (std::int64_t i = begin; i < end; ++i) task(static_cast<int>(i));
            });
          }};
}

Rope make_rope(const RopeText& text, int threads) {
  return {text.frequencies,
          text.layout,
          {.precision = text.precision, .threads = torch_threads(threads)}};
}

Rope make_reciprocal(const Rope& rope) {
  Frequencies f = rope.frequencies();
  if (f.growth.empty() && f.scale == 1.0) return rope;
  f.scale = 1.0 / f.scale;
  return {with_inverse_growth(std::move(f)), rope.layout(), rope.options()};
}

HeadLayout with_one_pairing(HeadLayout layout, Pairing pairing) {
  layout.pairing = pairing;
  layout.output_pairing = pairing;
  return layout;
}

Rope make_zero_frequency(const Rope& rope) {
  const Frequencies& f = rope.frequencies();
  return {{.pairs = f.pairs, .axes = f.axes, .values = std::vector<double>(f.values.size())},
          with_one_pairing(rope.layout(), *rope.layout().pairing),
          rope.options()};
}

Rope make_at_origin(const Rope& rope, Pairing pairing) {
  Frequencies f = rope.frequencies();
  f.scale = 1.0;
  f.growth_origin = 0.0;
  return {std::move(f), with_one_pairing(rope.layout(), pairing), rope.options()};
}

class RopeCache {
 public:
  std::shared_ptr<const SharedRope> find(std::string_view text, int threads) {
    std::string key = std::to_string(threads) + ' ';
    key += text;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = ropes_.find(key);
    if (found != ropes_.end()) return found->second;
    if (ropes_.size() >= kMaxRopes) ropes_.clear();
    auto made = std::make_shared<const SharedRope>(text, threads);
    ropes_.emplace(std::move(key), made);
    return made;
  }
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const SharedRope>> ropes_;
};

/// The last ropes of a thread: found without a lock, a hash or an allocation.
struct RecentRopes {
  std::array<std::shared_ptr<const SharedRope>, 4> ropes{};
  std::size_t next = 0;

  std::shared_ptr<const SharedRope> find(std::string_view text, int threads) const {
    for (const auto& rope : ropes) {
      if (rope && rope->threads() == threads && rope->text() == text) return rope;
    }
    return nullptr;
  }
  void add(std::shared_ptr<const SharedRope> rope) {
    ropes[next] = std::move(rope);
    next = (next + 1) % ropes.size();
  }
};

}  // namespace

SharedRope::SharedRope(std::string_view text, int threads)
    : text_(text),
      threads_(threads),
      one_axis_(from_text(text).one_axis),
      rope_(make_rope(from_text(text), threads)),
      reciprocal_(make_reciprocal(rope_)),
      zero_frequency_(make_zero_frequency(rope_)),
      half_at_origin_(make_at_origin(rope_, Pairing::kHalf)),
      interleaved_at_origin_(make_at_origin(rope_, Pairing::kInterleaved)) {}

at::Tensor SharedRope::copy_on(const at::Device& device, const std::vector<double>& values,
                               ByDevice& copies) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  at::Tensor& copy = copies[device.str()];
  if (!copy.defined()) {
    const Frequencies& f = frequencies();
    const at::Tensor host = at::from_blob(const_cast<double*>(values.data()), {f.pairs, f.axes},
                                          at::TensorOptions(at::kDouble));
    copy = host.to(device, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  }
  return copy;
}

at::Tensor SharedRope::frequencies_on(const at::Device& device) const {
  return copy_on(device, frequencies().values, frequencies_);
}

at::Tensor SharedRope::growth_on(const at::Device& device) const {
  return copy_on(device, frequencies().growth, growth_);
}

std::shared_ptr<const SharedRope> find_rope(std::string_view text) {
  static RopeCache& ropes = *new RopeCache;  // leaked: CUDA may be torn down before statics are
#if defined(__unix__) || defined(__APPLE__)
  // After fork() the child must not find the lock held by a thread that it does not have.
  [[maybe_unused]] static const int forks =
      pthread_atfork([] { ropes.lock(); }, [] { ropes.unlock(); }, [] { ropes.unlock(); });
#endif
  thread_local RecentRopes recent;
  const int threads = at::get_num_threads();
  if (auto rope = recent.find(text, threads)) return rope;
  try {
    auto rope = ropes.find(text, threads);
    recent.add(rope);
    return rope;
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, error.what());
  }
}

}  // namespace rotary::torch
