// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From a batch in plain memory to tensors on a device.
#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "roformer/train/trainer.h"

namespace rotary::roformer {
namespace {

bool labels_are_of_tokens(Task task) {
  return task == Task::kMaskedLm || task == Task::kCausalLm || task == Task::kTokenClassification;
}

/// Queues the copy to a device; PyTorch reuses the pinned memory only after it.
template <typename T>
at::Tensor upload(const std::vector<T>& values, at::IntArrayRef sizes, at::ScalarType type,
                  at::Device device) {
  const bool pinned = !device.is_cpu();
  const at::Tensor host = at::empty(sizes, at::TensorOptions(type).pinned_memory(pinned));
  std::memcpy(host.data_ptr(), values.data(), host.nbytes());
  return pinned ? host.to(device, /*non_blocking=*/true) : host;
}

std::int64_t longest(const std::vector<std::int32_t>& begins) {
  std::int32_t result = 0;
  for (std::size_t i = 1; i < begins.size(); ++i) {
    result = std::max(result, begins[i] - begins[i - 1]);
  }
  return result;
}

std::vector<std::int64_t> mask_of(const Batch& batch) {
  std::vector<std::int64_t> mask(static_cast<std::size_t>(batch.rows * batch.length), 0);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    std::fill_n(mask.begin() + row * batch.length, batch.lengths[static_cast<std::size_t>(row)], 1);
  }
  return mask;
}

/// Indices of the labelled tokens: computed here, so that nobody synchronises with the device.
std::vector<std::int64_t> label_indices(const std::vector<std::int64_t>& labels) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != kIgnoreIndex) indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

}  // namespace

std::int64_t count_labels(const Batch& batch, Task task) {
  if (!labels_are_of_tokens(task)) {
    return static_cast<std::int64_t>(batch.targets.size() + batch.numbers.size());
  }
  return std::ranges::count_if(batch.labels,
                               [](std::int64_t label) { return label != kIgnoreIndex; });
}

Inputs to_inputs(const Batch& batch, Task task, at::Device device) {
  const auto rows = [&](const std::vector<std::int64_t>& values) {
    return upload(values, {batch.rows, batch.length}, at::kLong, device);
  };
  Inputs inputs{.ids = rows(batch.ids)};
  if (std::ranges::any_of(batch.types, [](std::int64_t type) { return type != 0; })) {
    inputs.types = rows(batch.types);
  }
  if (!batch.cu_seqlens.empty()) {
    inputs.cu_seqlens = upload(
        batch.cu_seqlens, {static_cast<std::int64_t>(batch.cu_seqlens.size())}, at::kInt, device);
    inputs.max_seqlen = longest(batch.cu_seqlens);
  } else if (std::ranges::any_of(batch.lengths, [&](std::int64_t n) { return n < batch.length; })) {
    inputs.mask = rows(mask_of(batch));
  }
  if (labels_are_of_tokens(task)) {
    if (!batch.labels.empty()) inputs.labels = rows(batch.labels);
    if (inputs.labels && task != Task::kTokenClassification) {
      const std::vector<std::int64_t> indices = label_indices(batch.labels);
      inputs.logits_at = LogitsAt::kLabels;
      inputs.label_indices =
          upload(indices, {static_cast<std::int64_t>(indices.size())}, at::kLong, device);
    }
    inputs.causal_labels = CausalLabels::kNextToken;
  } else if (!batch.numbers.empty()) {
    inputs.labels = upload(batch.numbers, {batch.rows}, at::kFloat, device);
  } else if (!batch.targets.empty()) {
    std::vector<std::int64_t> sizes = {batch.rows};
    if (task == Task::kQuestionAnswering) sizes.push_back(2);
    inputs.labels = upload(batch.targets, sizes, at::kLong, device);
  }
  return inputs;
}

}  // namespace rotary::roformer
