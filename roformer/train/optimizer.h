// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// AdamW over the flat buffers of a parameter store: few launches for all parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "roformer/model/parameter_store.h"
#include "roformer/train/freeze.h"

namespace rotary::roformer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Decoupled; not applied to norms and biases (parameters of fewer than two dimensions), nor
  /// to parameters of the rotation.
  double weight_decay = 0.01;
};

/// Updates the elements [begin, end) of the store, multiples of 64 both. Deterministic.
class AdamW {
 public:
  AdamW(const ParameterStore& store, const AdamWOptions& options, std::int64_t begin,
        std::int64_t end);

  /// Parts of the elements: those in `late` are not updated before freeze(false), and count their
  /// steps from then on. Both are ranges within [begin, end) that do not overlap.
  void split(FlatRanges always, FlatRanges late);
  void freeze(bool on) noexcept { frozen_ = on; }
  /// The learning rate of these elements is multiplied by the factor; may be called several times,
  /// with ranges that do not overlap.
  void scale_rate(const FlatRanges& ranges, double factor);
  /// After steps() was restored: that many of them were without the elements in `late`.
  void restore_late_steps(std::int64_t before);

  /// Uses gradients / divisor; does nothing where `skip` is 1. Both are [1], float32, on the device
  /// of the parameters. `rate`: transformer::AdamWOptions::rate.
  void step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skip,
            const at::Tensor& rate = {});

  std::int64_t begin() const noexcept { return begin_; }
  std::int64_t end() const noexcept { return end_; }
  /// Moving averages of the gradient and of its square, [end - begin].
  const at::Tensor& first_moment() const noexcept { return first_; }
  const at::Tensor& second_moment() const noexcept { return second_; }
  /// Number of steps in the moments, [1].
  const at::Tensor& steps() const noexcept { return steps_; }

 private:
  struct Update {
    double learning_rate;
    const at::Tensor& divisor;
    const at::Tensor& skip;
    const at::Tensor& rate;
  };
  /// Each part of the ranges with the rate of its own. All begin with the same number of steps.
  void update_parts(const FlatRanges& ranges, const at::Tensor& steps, const Update& with);
  void update(std::int64_t begin, std::int64_t end, const at::Tensor& steps, const Update& with);

  const ParameterStore& store_;
  AdamWOptions options_;
  std::int64_t begin_;
  std::int64_t end_;
  at::Tensor first_;
  at::Tensor second_;
  at::Tensor steps_;
  FlatRanges always_;
  FlatRanges late_;
  at::Tensor late_steps_;
  /// Where factors of the learning rate change, ascending, and the factor from there on.
  std::map<std::int64_t, double> rates_;
  bool frozen_ = false;
};

}  // namespace rotary::roformer
