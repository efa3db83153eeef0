// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/ranks.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "support/message.h"

#ifdef ROTARY_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace rotary::roformer {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Long, because ranks wait while rank 0 tokenises a corpus. A rank that ends is noticed at once.
constexpr auto kTimeout = std::chrono::hours(6);
/// Elements of one all-reduce.
constexpr std::int64_t kChunk = std::int64_t{8} << 20;

class ProcessRanks final : public Ranks {
 public:
  ProcessRanks(const RankEnvironment& at, c10::intrusive_ptr<c10d::Store> store,
               c10::intrusive_ptr<c10d::Backend> backend)
      : Ranks(at.rank, at.size), store_(std::move(store)), backend_(std::move(backend)) {}

  std::string backend() const override { return backend_->getBackendName(); }

  void all_reduce(const at::Tensor& tensor) override {
    std::vector<WorkPtr> pending;
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += kChunk) {
      const std::int64_t size = std::min(kChunk, tensor.numel() - begin);
      std::vector<at::Tensor> chunk{tensor.narrow(0, begin, size)};
      pending.push_back(backend_->allreduce(chunk, {}));
    }
    for (const WorkPtr& work : pending) work->wait();
  }

  void broadcast(const at::Tensor& tensor, std::int64_t from) override {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int>(from);
    backend_->broadcast(tensors, options)->wait();
  }

  void all_gather(const at::Tensor& tensor) override {
    const std::int64_t shard = tensor.numel() / size();
    std::vector<std::vector<at::Tensor>> shards{tensor.split(shard)};
    std::vector<at::Tensor> own{tensor.narrow(0, rank() * shard, shard).clone()};
    backend_->allgather(shards, own, {})->wait();
  }

  void wait_for_all() override { backend_->barrier({})->wait(); }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

/// Empty if it is not set.
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

std::int64_t number(const char* name, std::int64_t min, std::int64_t max) {
  const std::string_view text = variable(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty()) internal::reject("[join_ranks] WORLD_SIZE is set, but ", name, " is not");
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    internal::reject("[join_ranks] ", name, " must be a whole number from ", min, " to ", max,
                     ", got ", text);
  }
  return value;
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const RankEnvironment& at,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
  auto options = c10d::ProcessGroupGloo::Options::create(kTimeout);
  // Loopback if all ranks are on this machine; else the address of its host name.
  const bool local = at.address == "127.0.0.1" || at.address == "localhost";
  const std::string_view interface = variable("GLOO_SOCKET_IFNAME");
  options->devices.push_back(
      !interface.empty() ? c10d::ProcessGroupGloo::createDeviceForInterface(std::string(interface))
      : local            ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                         : c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(at.rank),
                                                     static_cast<int>(at.size), options);
}

c10::intrusive_ptr<c10d::Backend> make_backend(const RankEnvironment& at,
                                               const c10::intrusive_ptr<c10d::Store>& store,
                                               [[maybe_unused]] at::Device device) {
#ifdef ROTARY_NCCL
  if (device.is_cuda()) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = kTimeout;
    auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(at.rank),
                                                            static_cast<int>(at.size), options);
    nccl->setBoundDeviceId(device);
    return nccl;
  }
#endif
  return make_gloo(at, store);
}

}  // namespace

RankEnvironment read_rank_environment() {
  if (variable("WORLD_SIZE").empty()) return {};
  constexpr std::int64_t kMaxRanks = 1 << 20;
  RankEnvironment found{.size = number("WORLD_SIZE", 1, kMaxRanks)};
  found.rank = number("RANK", 0, found.size - 1);
  found.local_rank =
      variable("LOCAL_RANK").empty() ? found.rank : number("LOCAL_RANK", 0, found.size - 1);
  if (found.size == 1) return found;
  found.address = variable("MASTER_ADDR");
  if (found.address.empty()) {
    internal::reject("[join_ranks] WORLD_SIZE is set, but MASTER_ADDR is not");
  }
  found.port = static_cast<std::uint16_t>(number("MASTER_PORT", 1, 65535));
  return found;
}

at::Device gpu_of_rank(const RankEnvironment& environment) {
  const std::int64_t count =
      at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
  if (environment.local_rank >= count) {
    internal::reject("process ", environment.local_rank, " of this machine has no GPU: there are ",
                     count);
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(environment.local_rank)};
}

RanksPtr join_ranks(const RankEnvironment& environment, at::Device device) {
  if (environment.size == 1) return nullptr;
  c10d::TCPStoreOptions options;
  options.port = environment.port;
  // torchrun runs the store's server; without it, rank 0 does.
  options.isServer = environment.rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  options.timeout = kTimeout;
  options.waitWorkers = false;
  const c10::intrusive_ptr<c10d::Store> tcp =
      c10::make_intrusive<c10d::TCPStore>(environment.address, options);
  // A prefix per restart, so that restarted processes do not see keys of earlier ones.
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "roformer/" + std::string(variable("TORCHELASTIC_RESTART_COUNT")), tcp);
  return std::make_shared<ProcessRanks>(environment, store,
                                        make_backend(environment, store, device));
}

}  // namespace rotary::roformer
