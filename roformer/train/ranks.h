// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Data-parallel training: ranks are processes that train one model, each on its share of every
/// batch. They communicate by PyTorch's process groups: Gloo between CPUs, NCCL between GPUs.
///
///   torchrun --no-python --nproc-per-node 8 roformer pretrain run/ --config pretrain.json
///   torchrun --no-python --nproc-per-node 8 roformer finetune base/ train.tsv -o run/
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace rotary::roformer {

/// Collective operations: every process calls the same ones in the same order, from one thread.
/// Throws std::runtime_error if another process has ended or does not answer.
class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::int64_t rank() const noexcept { return rank_; }
  std::int64_t size() const noexcept { return size_; }
  /// "gloo" or "nccl".
  virtual std::string backend() const = 0;

  /// Sum over ranks, in place, in concurrent chunks. Work queued on the tensor's device afterwards
  /// sees the sum.
  virtual void all_reduce(const at::Tensor& tensor) = 0;
  /// Copies the tensor of rank `from` to all.
  virtual void broadcast(const at::Tensor& tensor, std::int64_t from) = 0;
  /// In place: `tensor` is [size * n], and rank r provides its shard r of n elements.
  virtual void all_gather(const at::Tensor& tensor) = 0;
  /// Barrier.
  virtual void wait_for_all() = 0;

 protected:
  Ranks(std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {}

 private:
  std::int64_t rank_;
  std::int64_t size_;
};
using RanksPtr = std::shared_ptr<Ranks>;

/// torchrun's variables RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
struct RankEnvironment {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  /// Rank within this machine, and the number of its GPU.
  std::int64_t local_rank = 0;
  std::string address{};
  std::uint16_t port = 0;
};
/// One rank if WORLD_SIZE is not set. Throws std::invalid_argument that names a variable which is
/// missing or out of range.
RankEnvironment read_rank_environment();

/// The GPU of this process: number local_rank. Throws std::invalid_argument if the machine has
/// fewer.
at::Device gpu_of_rank(const RankEnvironment& environment);

/// Connects to the other ranks; null for a single one. Tensors will be on `device`: NCCL for CUDA
/// if it was available at build time, else Gloo, which copies through host memory.
RanksPtr join_ranks(const RankEnvironment& environment, at::Device device);

}  // namespace rotary::roformer
