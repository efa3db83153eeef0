// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// AdamW over parameters that lie end to end: a few launches for all of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rotary::roformer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Decoupled; not of norms and biases (parameters of fewer than two dimensions).
  double weight_decay = 0.01;
};

/// The parameters of a module in one piece of memory, and their gradients in another:
///
///   [ those that decay, each from a multiple of 64 elements on | those that do not | 0 ]
///
/// The parameters stay what they were to the module; each has a gradient from now on, which
/// backward() adds to. `narrow` has a copy of the values in another type, kept by AdamW.
class FlatParameters {
 public:
  struct Part {
    std::string name;
    at::Tensor parameter{};
    at::Tensor gradient{};
    std::int64_t offset = 0;
  };

  /// Those that require a gradient. Throws std::invalid_argument unless they are float32 and on one
  /// device. `ranks`: the size becomes a multiple of it.
  explicit FlatParameters(::torch::nn::Module& module, std::int64_t ranks = 1);

  const std::vector<Part>& parts() const noexcept { return parts_; }
  /// [size]
  const at::Tensor& values() const noexcept { return values_; }
  const at::Tensor& gradients() const noexcept { return gradients_; }
  /// [size], where keep_narrow() was called.
  const std::optional<at::Tensor>& narrow() const noexcept { return narrow_; }
  void keep_narrow(at::ScalarType type) { narrow_ = values_.to(type); }
  std::int64_t size() const { return values_.numel(); }
  /// Elements before this one decay.
  std::int64_t num_decaying() const noexcept { return num_decaying_; }
  /// A part of a tensor [size] in the shape of the parameter.
  static at::Tensor view_of(const Part& part, const at::Tensor& flat);
  /// Tells autograd that values() was written to.
  void bump_versions() const;

 private:
  std::vector<Part> parts_;
  at::Tensor values_;
  at::Tensor gradients_;
  std::optional<at::Tensor> narrow_;
  std::int64_t num_decaying_ = 0;
};

/// Of the elements [begin, end) of the parameters, multiples of 64 both. Deterministic.
class AdamW {
 public:
  AdamW(const FlatParameters& parameters, const AdamWOptions& options, std::int64_t begin,
        std::int64_t end);

  /// Gradients count divided by `divisor`; nothing happens where `skip` is 1. Both are [1], float,
  /// on the device of the parameters.
  void step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skip);

  std::int64_t begin() const noexcept { return begin_; }
  std::int64_t end() const noexcept { return end_; }
  /// Averages of the gradient and of its square, [end - begin].
  const at::Tensor& first_moment() const noexcept { return first_; }
  const at::Tensor& second_moment() const noexcept { return second_; }
  /// Steps that are in the moments, [1].
  const at::Tensor& steps() const noexcept { return steps_; }

 private:
  const FlatParameters& parameters_;
  AdamWOptions options_;
  std::int64_t begin_;
  std::int64_t end_;
  at::Tensor first_;
  at::Tensor second_;
  at::Tensor steps_;
};

}  // namespace rotary::roformer
