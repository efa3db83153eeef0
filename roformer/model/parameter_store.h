// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameter store: master weights, gradients and a low-precision copy of the weights, each in one
// flat buffer. A parameter is known by its index, its position in the model's named_parameters().
//
//   [ parameters with weight decay, each at a multiple of 64 elements | those without | padding ]
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rotary::roformer {

using ParameterIndex = std::int64_t;
inline constexpr ParameterIndex kNoIndex = -1;

/// A parameter and its index.
struct Parameter {
  at::Tensor tensor{};
  ParameterIndex index = kNoIndex;
};

/// Base of modules that pass their own parameters to layers by index: the first one has
/// `first_parameter`, the others follow in order of registration.
struct IndexedParameters {
  ParameterIndex first_parameter = kNoIndex;
};
/// Sets `first_parameter` of every submodule of `model`, which may be under construction.
void index_parameters(::torch::nn::Module& model);

/// The module's parameters become views of the flat buffer and keep their values. Used by one
/// thread, and by the backward passes that it starts.
class ParameterStore {
 public:
  /// A parameter's range of the flat buffers.
  struct Segment {
    std::string name;
    at::Tensor parameter{};
    /// A view of gradients(), and the parameter's grad().
    at::Tensor gradient{};
    std::int64_t offset = 0;
    /// A view of low_precision(), where there is one.
    at::Tensor copy{};
    /// The parameter's version counter when `copy` was written.
    std::int64_t version = 0;
    /// No gradient was accumulated in this step yet: `gradient` still has that of an earlier one.
    bool stale = true;
  };

  /// Stores the parameters that require a gradient. Throws std::invalid_argument unless they are
  /// float32 and on one device. The size of the buffers is a multiple of `ranks`.
  explicit ParameterStore(::torch::nn::Module& module, std::int64_t ranks = 1);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// In the order of the buffers.
  const std::vector<Segment>& segments() const noexcept { return segments_; }
  /// Master weights and gradients, [size], float32.
  const at::Tensor& values() const noexcept { return values_; }
  const at::Tensor& gradients() const noexcept { return gradients_; }
  std::int64_t size() const { return values_.numel(); }
  /// Elements before this one have weight decay.
  std::int64_t num_decaying() const noexcept { return num_decaying_; }
  /// The segment's range of a tensor [size], in the shape of the parameter.
  static at::Tensor view(const Segment& segment, const at::Tensor& flat);

  // ---- Low-precision weights --------------------------------------------------------------------

  /// Adds a copy of the weights in another type, so that a forward pass casts none. Whoever writes
  /// values() writes it too.
  void add_low_precision(at::ScalarType type);
  /// [size]
  const std::optional<at::Tensor>& low_precision() const noexcept { return low_precision_; }
  /// Both buffers were written: autograd's version counters go up, and the copies are current.
  void mark_written();
  /// Weights in `type` as one tensor, concatenated along the first dimension: the master weights
  /// for float32, else the copy. Undefined unless they are adjacent in the buffer, and where a
  /// parameter is not stored, or has changed since mark_written().
  at::Tensor find(at::ScalarType type, const std::vector<Parameter>& parameters) const;

  // ---- Gradients --------------------------------------------------------------------------------

  /// Runs loss.backward() and adds its gradients to those of the step.
  void accumulate_gradients(const at::Tensor& loss);
  /// Ends the step: gradients of parameters that had none become 0.
  void finish_gradients();

  /// A gradient in the type in which a layer computed it: of the adjacent parameters from `index`
  /// on; or, with `rows`, of those rows of one parameter, except `padding_row`.
  struct Gradient {
    ParameterIndex index = kNoIndex;
    at::Tensor gradient{};
    at::Tensor rows{};
    std::int64_t padding_row = -1;
  };
  /// For backward functions: true if the store accumulates the gradient, which autograd then need
  /// not cast and add. False outside accumulate_gradients() and for parameters not stored.
  bool take(const Gradient& gradient);

 private:
  class Accumulation;
  const Segment* segment_at(ParameterIndex index) const;

  std::vector<Segment> segments_;
  /// [parameters of the module]: position in segments_, or -1.
  std::vector<std::int64_t> segment_of_;
  at::Tensor values_;
  at::Tensor gradients_;
  std::optional<at::Tensor> low_precision_;
  std::int64_t num_decaying_ = 0;
  /// Gradients taken by the backward pass that runs.
  std::vector<Gradient> taken_;
  bool accumulating_ = false;
};

}  // namespace rotary::roformer
