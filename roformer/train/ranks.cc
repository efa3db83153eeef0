// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/ranks.h"

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

// A corpus may be tokenised by rank 0 while the others wait. Whoever ends is noticed at once.
constexpr auto kPatience = std::chrono::hours(6);
/// Elements that are summed in one go.
constexpr std::int64_t kPiece = std::int64_t{8} << 20;

class ProcessRanks final : public Ranks {
 public:
  ProcessRanks(const RankEnvironment& at, c10::intrusive_ptr<c10d::Store> store,
               c10::intrusive_ptr<c10d::Backend> backend)
      : Ranks(at.rank, at.size), store_(std::move(store)), backend_(std::move(backend)) {}

  std::string backend() const override { return backend_->getBackendName(); }

  void sum(const at::Tensor& tensor) override {
    std::vector<WorkPtr> under_way;
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += kPiece) {
      const std::int64_t size = std::min(kPiece, tensor.numel() - begin);
      std::vector<at::Tensor> piece{tensor.narrow(0, begin, size)};
      under_way.push_back(backend_->allreduce(piece, {}));
    }
    for (const WorkPtr& work : under_way) work->wait();
  }

  void broadcast(const at::Tensor& tensor, std::int64_t from) override {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int>(from);
    backend_->broadcast(tensors, options)->wait();
  }

  void gather_parts(const at::Tensor& tensor) override {
    const std::int64_t part = tensor.numel() / size();
    std::vector<std::vector<at::Tensor>> parts{tensor.split(part)};
    std::vector<at::Tensor> mine{tensor.narrow(0, rank() * part, part).clone()};
    backend_->allgather(parts, mine, {})->wait();
  }

  void wait_for_all() override { backend_->barrier({})->wait(); }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

/// Empty where it is not set.
std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

std::int64_t number(const char* name, std::int64_t least, std::int64_t most) {
  const std::string_view text = variable(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty()) internal::reject("[join_ranks] WORLD_SIZE is set, but ", name, " is not");
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    internal::reject("[join_ranks] ", name, " must be a whole number from ", least, " to ", most,
                     ", got ", text);
  }
  return value;
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const RankEnvironment& at,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
  auto options = c10d::ProcessGroupGloo::Options::create(kPatience);
  // Loopback for who is alone on this machine; else what the machine's name resolves to.
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
    options->timeout = kPatience;
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
  constexpr std::int64_t kMost = 1 << 20;
  RankEnvironment found{.size = number("WORLD_SIZE", 1, kMost)};
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

RanksPtr join_ranks(const RankEnvironment& environment, at::Device device) {
  if (environment.size == 1) return nullptr;
  c10d::TCPStoreOptions options;
  options.port = environment.port;
  // torchrun has a server there already; where each process was started by hand, rank 0 is it.
  options.isServer = environment.rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  options.timeout = kPatience;
  options.waitWorkers = false;
  const c10::intrusive_ptr<c10d::Store> tcp =
      c10::make_intrusive<c10d::TCPStore>(environment.address, options);
  // Processes that are started again meet under another name than those before them.
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "roformer/" + std::string(variable("TORCHELASTIC_RESTART_COUNT")), tcp);
  return std::make_shared<ProcessRanks>(environment, store,
                                        make_backend(environment, store, device));
}

}  // namespace rotary::roformer
