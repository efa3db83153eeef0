// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/generated_batches.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "roformer/lab/text_data.h"

namespace rotary::roformer::lab {
namespace {

at::Tensor narrowed(const std::vector<std::int64_t>& values, at::IntArrayRef sizes,
                    at::Device device) {
  const at::Tensor host = at::empty(sizes, at::kShort);
  std::ranges::transform(values, host.mutable_data_ptr<std::int16_t>(),
                         [](std::int64_t value) { return static_cast<std::int16_t>(value); });
  return upload(host, device);
}

}  // namespace

GeneratedBatches::GeneratedBatches(MakeRows make_rows, const GeneratedOptions& options,
                                   at::Device device)
    : make_rows_(std::move(make_rows)), options_(options), device_(device) {}

TrainingBatch GeneratedBatches::operator()(std::int64_t step) {
  const std::int64_t chunk = (step - 1) / options_.chunk_steps;
  if (chunk != chunk_) load(chunk);
  const std::int64_t index = (step - 1) % options_.chunk_steps;
  TrainingBatch batch;
  batch.inputs.ids = ids_[index].to(at::kLong);
  batch.inputs.labels = labels_[index].to(at::kLong);
  batch.inputs.causal_labels = CausalLabels::kNextToken;
  batch.num_labels = num_labels_[static_cast<std::size_t>(index)];
  return batch;
}

void GeneratedBatches::load(std::int64_t chunk) {
  Random random(options_.seed, static_cast<std::uint64_t>(chunk));
  const Batch batch = make_rows_(options_.chunk_steps * options_.rows, random);
  ids_ = narrowed(batch.ids, {options_.chunk_steps, options_.rows, batch.length}, device_);
  labels_ = narrowed(batch.labels, {options_.chunk_steps, options_.rows, batch.length}, device_);
  num_labels_.clear();
  const std::int64_t size = options_.rows * batch.length;
  for (auto begin = batch.labels.begin(); begin != batch.labels.end(); begin += size) {
    num_labels_.push_back(size - std::count(begin, begin + size, kIgnoreIndex));
  }
  chunk_ = chunk;
}

}  // namespace rotary::roformer::lab
