// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The processes that train one model together, each on its part of every batch. PyTorch's own
/// engine carries the data: Gloo between CPUs, NCCL between GPUs.
///
///   torchrun --no-python --nproc-per-node 8 roformer pretrain run/ --config pretrain.json
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace rotary::roformer {

/// Every process calls the same functions in the same order. Used by one thread. Throws
/// std::runtime_error where another process is gone or does not answer.
class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::int64_t rank() const noexcept { return rank_; }
  std::int64_t size() const noexcept { return size_; }
  /// "gloo" or "nccl".
  virtual std::string backend() const = 0;

  /// In place, over all ranks, in pieces that travel at the same time. Work that is queued on the
  /// tensor's device afterwards sees the sum.
  virtual void sum(const at::Tensor& tensor) = 0;
  /// What rank `from` has.
  virtual void broadcast(const at::Tensor& tensor, std::int64_t from) = 0;
  /// `tensor` is [size * n]: part r, n elements, becomes what rank r has there.
  virtual void gather_parts(const at::Tensor& tensor) = 0;
  /// Returns when all ranks are here.
  virtual void wait_for_all() = 0;

 protected:
  Ranks(std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {}

 private:
  std::int64_t rank_;
  std::int64_t size_;
};
using RanksPtr = std::shared_ptr<Ranks>;

/// What torchrun says of this process in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
struct RankEnvironment {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  /// Among those of this machine: which GPU is its own.
  std::int64_t local_rank = 0;
  std::string address{};
  std::uint16_t port = 0;
};
/// One rank where nothing is said. Throws std::invalid_argument that names a variable which is
/// missing beside the others, or no number in its range.
RankEnvironment read_rank_environment();

/// Meets the others; null for one rank. Tensors will be on `device`: NCCL for CUDA, where it was
/// there when this was built, else Gloo, which goes through the CPU's memory.
RanksPtr join_ranks(const RankEnvironment& environment, at::Device device);

}  // namespace rotary::roformer
