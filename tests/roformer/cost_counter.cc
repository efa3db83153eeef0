// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Compiled with NDEBUG, as PyTorch's packages are: at::RecordFunction has another layout without.

#include "roformer/cost_counter.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary::roformer {
namespace {

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

std::map<std::string, double>& counted() {
  thread_local std::map<std::string, double> operations;
  return operations;
}

/// Whether the result is a view of an argument, which costs nothing.
bool is_view(const at::RecordFunction& call) {
  const auto schema = call.operator_schema();
  if (!schema || schema->returns().empty()) return false;
  const auto* alias = schema->returns().front().alias_info();
  return alias != nullptr && !alias->isWrite();
}

/// Products of matrices by their sizes, attention kernels by all pairs of queries and keys, and
/// one operation per element of every argument for the others.
std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& call) {
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
  const bool adds = name == "aten::baddbmm" || name == "aten::baddbmm_" || name == "aten::addmm" ||
                    name == "aten::addmm_";
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

}  // namespace

std::string Cost::growth_since(const Cost& other) const {
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

struct CostCounter::State {
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, memory};
  at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(count_call).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
};

CostCounter::CostCounter() : state_(std::make_unique<State>()) { counted().clear(); }
CostCounter::~CostCounter() { at::removeCallback(state_->handle); }

Cost CostCounter::cost() const {
  Cost cost{.peak_bytes = static_cast<double>(state_->memory->peak), .by_operator = counted()};
  for (const auto& [name, count] : cost.by_operator) cost.operations += count;
  return cost;
}

}  // namespace rotary::roformer
