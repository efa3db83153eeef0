// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/cost.h"

#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

#include "roformer/train/memory.h"

namespace rotary::roformer::lab {
namespace {

using Clock = std::chrono::steady_clock;

void wait_for_device(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.index());
}

/// Seconds for decoding work.tokens tokens of each row.
double decode(ModelImpl& model, const DecodeWork& work, at::Device device) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions longs = at::TensorOptions(at::kLong).device(device);
  Cache cache;
  const at::Tensor prompt =
      at::arange(work.rows * work.prompt, longs).remainder_(model.config().vocab_size);
  model.forward({.ids = prompt.view({work.rows, work.prompt}), .cache = &cache});
  at::Tensor next = at::ones({work.rows, 1}, longs);
  wait_for_device(device);
  const auto began = Clock::now();
  for (std::int64_t i = 0; i < work.tokens; ++i) {
    next = model.forward({.ids = next, .cache = &cache}).logits.argmax(-1);
  }
  wait_for_device(device);
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

void reset_training_cost(at::Device device) { reset_peak_memory(device); }

void add_median(const std::string& metric, std::vector<double> values, const UnitRun& run,
                std::vector<Row>& rows) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  rows.push_back(run.row(metric, values.size() % 2 == 1
                                     ? values[middle]
                                     : (values[middle - 1] + values[middle]) / 2.0));
  rows.push_back(run.row("min_" + metric, values.front()));
  rows.push_back(run.row("max_" + metric, values.back()));
}

void add_training_cost(const Trained& trained, const UnitRun& run, std::vector<Row>& rows) {
  rows.push_back(run.row("train_tokens_per_second", trained.tokens_per_second));
  add_training_memory(run, rows);
}

void add_training_memory(const UnitRun& run, std::vector<Row>& rows) {
  if (run.device.is_cpu()) return;
  rows.push_back(run.row("train_peak_bytes", static_cast<double>(peak_memory(run.device))));
}

void add_decoding_cost(ModelImpl& model, const DecodeWork& work, const UnitRun& run,
                       std::vector<Row>& rows) {
  constexpr const char* kSpeed = "decode_tokens_per_second";
  try {
    decode(model, work, run.device);  // kernels are loaded and memory is allocated on first use
    reset_peak_memory(run.device);
    std::vector<double> speeds;
    for (int i = 0; i < kCostRepeats; ++i) {
      const double seconds = decode(model, work, run.device);
      speeds.push_back(static_cast<double>(work.rows * work.tokens) / std::max(seconds, 1e-9));
    }
    add_median(kSpeed, std::move(speeds), run, rows);
    if (run.device.is_cpu()) return;
    rows.push_back(run.row("decode_peak_bytes", static_cast<double>(peak_memory(run.device))));
  } catch (const c10::Error& error) {
    rows.push_back(run.missing(kSpeed, error.what_without_backtrace()));
  }
}

bool is_cost(std::string_view metric) {
  return metric.ends_with("_per_second") || metric.ends_with("_bytes");
}

}  // namespace rotary::roformer::lab
