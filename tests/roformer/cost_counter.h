// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Cost of a computation on the CPU, counted rather than timed: multiply-adds of PyTorch's operators
// and bytes of its allocator.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary::roformer {

struct Cost {
  double operations = 0.0;
  double peak_bytes = 0.0;                      // beyond what was allocated before
  std::map<std::string, double> by_operator{};  // operations

  /// The operators that grew most, for messages.
  std::string growth_since(const Cost& other) const {
    std::vector<std::pair<double, std::string>> grown;
    for (const auto& [name, count] : by_operator) {
      const auto before = other.by_operator.find(name);
      grown.emplace_back(count - (before == other.by_operator.end() ? 0.0 : 2 * before->second),
                         name);
    }
    std::sort(grown.rbegin(), grown.rend());
    std::ostringstream text;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, grown.size()); ++i) {
      text << grown[i].second << " by " << grown[i].first << " beyond twice; ";
    }
    return text.str();
  }
};

/// Counts while it lives, in this thread and the backward passes that it starts.
class CostCounter {
 public:
  CostCounter()
      : memory_(std::make_shared<Memory>()),
        guard_(c10::DebugInfoKind::PROFILER_STATE, memory_),
        handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(count_call)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    counted().clear();
  }
  ~CostCounter() { at::removeCallback(handle_); }
  CostCounter(const CostCounter&) = delete;
  CostCounter& operator=(const CostCounter&) = delete;

  Cost cost() const {
    Cost cost{.peak_bytes = static_cast<double>(memory_->peak), .by_operator = counted()};
    for (const auto& [name, count] : cost.by_operator) cost.operations += count;
    return cost;
  }

 private:
  struct Memory final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                           c10::Device) override {
      now += bytes;
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t now = 0;
    std::int64_t peak = 0;
  };

  static std::map<std::string, double>& counted() {
    thread_local std::map<std::string, double> operations;
    return operations;
  }

  /// Whether the result is a view of an argument, which costs nothing.
  static bool is_view(const at::RecordFunction& call) {
    const auto schema = call.operator_schema();
    if (!schema || schema->returns().empty()) return false;
    const auto* alias = schema->returns().front().alias_info();
    return alias != nullptr && !alias->isWrite();
  }

  /// Products of matrices by their sizes, attention kernels by all pairs of queries and keys, and
  /// one operation per element of every argument for the others.
  static std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& call) {
    if (is_view(call)) return nullptr;
    const std::string_view name = call.name();
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& input : call.inputs()) {
      if (input.isTensor() && input.toTensor().defined()) tensors.push_back(input.toTensor());
    }
    const auto size = [&](std::size_t i, std::int64_t dim) {
      return static_cast<double>(tensors[i].size(dim));
    };
    const auto count = [&](std::size_t i) { return static_cast<double>(tensors[i].numel()); };
    const std::size_t n = tensors.size();
    double& operations = counted()[std::string(name)];
    const bool adds = name == "aten::baddbmm" || name == "aten::baddbmm_" ||
                      name == "aten::addmm" || name == "aten::addmm_";
    if (adds && n >= 3) {
      operations += count(1) * size(2, -1);
    } else if ((name == "aten::mm" || name == "aten::bmm") && n >= 2) {
      operations += count(0) * size(1, -1);
    } else if (name.find("scaled_dot_product") != std::string_view::npos && n >= 2) {
      operations += count(0) * size(1, -2);
    } else {
      for (std::size_t i = 0; i < n; ++i) operations += count(i);
    }
    return nullptr;
  }

  std::shared_ptr<Memory> memory_;
  c10::DebugInfoGuard guard_;
  at::CallbackHandle handle_;
};

}  // namespace rotary::roformer
