// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/module.h>

#include <cmath>
#include <ostream>
#include <utility>

#include "pytorch/per_head.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "rotary/torch.h"

namespace rotary::torch {

std::vector<at::Tensor> rotate(at::TensorList tensors, std::string_view rope,
                               const TokenPositions& positions) {
  return call(RotationOp::kRotate, tensors, rope, positions);
}
std::vector<at::Tensor> unrotate(at::TensorList tensors, std::string_view rope,
                                 const TokenPositions& positions) {
  return call(RotationOp::kUnrotate, tensors, rope, positions);
}
std::vector<at::Tensor> adjoint(at::TensorList tensors, std::string_view rope,
                                const TokenPositions& positions) {
  return call(RotationOp::kAdjoint, tensors, rope, positions);
}
std::vector<at::Tensor> shift(at::TensorList keys, std::string_view rope,
                              const TokenPositions& delta) {
  return call(RotationOp::kShift, keys, rope, delta);
}

void rotate_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions) {
  call_in_place(RotationOp::kRotate, tensors, rope, positions);
}
void unrotate_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions) {
  call_in_place(RotationOp::kUnrotate, tensors, rope, positions);
}
void adjoint_(at::TensorList tensors, std::string_view rope, const TokenPositions& positions) {
  call_in_place(RotationOp::kAdjoint, tensors, rope, positions);
}
void shift_(at::TensorList keys, std::string_view rope, const TokenPositions& delta) {
  call_in_place(RotationOp::kShift, keys, rope, delta);
}

RotaryEmbeddingImpl::RotaryEmbeddingImpl(RotaryEmbeddingOptions options)
    : ::torch::nn::Module("RotaryEmbedding"), options_(std::move(options)) {
  const auto rope = find_rope(options_.rope);
  const Frequencies& f = rope->frequencies();
  scale_ = f.scale;
  key_rope_ = options_.rope;
  if (rope->grows()) {
    RopeText keys = from_text(options_.rope);
    keys.frequencies = with_inverse_growth(std::move(keys.frequencies));
    key_rope_ = to_text(keys);
  }
  const at::TensorOptions plain = at::TensorOptions(at::kFloat);
  switch (options_.learn) {
    case Learn::kNothing:
      break;
    case Learn::kLogGain:
      learned_ = at::zeros({f.pairs}, plain);
      break;
    case Learn::kFrequencies:
      learned_ = at::zeros({f.pairs, f.axes}, plain);
      break;
    case Learn::kReceptiveField:
      learned_ = at::zeros({1}, plain);
      break;
    case Learn::kPerHead:
      TORCH_CHECK_VALUE(options_.heads > 0,
                        "[RotaryEmbedding] heads must be positive to learn frequencies per head, "
                        "got ",
                        options_.heads);
      learned_ = at::zeros({options_.heads, f.pairs, f.axes}, plain);
      break;
  }
  if (learned_.defined()) learned_ = register_parameter("learned", learned_);
  if (options_.learn_scale) {
    log_scale_ = register_parameter("log_scale", at::zeros({1}, plain));
  }
  reset_parameters();
}

void RotaryEmbeddingImpl::reset_parameters() {
  const at::NoGradGuard guard;
  for (at::Tensor& parameter : parameters()) parameter.zero_();
  if (options_.learn != Learn::kPerHead) return;
  const at::Tensor base = call_frequencies_like(at::empty({0}), options_.rope);
  learned_.copy_(in_random_directions(base, options_.heads) - base);
}

at::Tensor RotaryEmbeddingImpl::base_frequencies() const {
  const at::Tensor like =
      learned_.defined() ? learned_ : (log_scale_.defined() ? log_scale_ : at::empty({0}));
  return call_frequencies_like(like, options_.rope);
}

at::Tensor RotaryEmbeddingImpl::frequencies() const {
  const at::Tensor base = base_frequencies();
  if (!learned_.defined()) return base;
  const at::Tensor learned = learned_.to(at::kDouble);
  switch (options_.learn) {
    case Learn::kLogGain:
      return base * learned.exp().unsqueeze(-1);
    case Learn::kFrequencies:
    case Learn::kPerHead:
      return base + learned;
    case Learn::kReceptiveField:
      break;
    case Learn::kNothing:
      return base;
  }
  return learned * std::pow(10000.0, -options_.rho) + (1.0 - learned) * base;
}

std::optional<at::Tensor> RotaryEmbeddingImpl::scale() const {
  if (!log_scale_.defined()) return std::nullopt;
  return log_scale_.to(at::kDouble).exp() * scale_;
}

std::vector<at::Tensor> RotaryEmbeddingImpl::apply(std::string_view op, at::TensorList tensors,
                                                   std::string_view rope,
                                                   const TokenPositions& positions) const {
  if (!learned_.defined() && !log_scale_.defined()) {
    return call(op == "rotate" ? RotationOp::kRotate : RotationOp::kUnrotate, tensors, rope,
                positions);
  }
  return call_learned(op, tensors, rope,
                      frequencies().to(tensors.empty() ? at::kCPU : tensors[0].device()), scale(),
                      positions);
}

std::vector<at::Tensor> RotaryEmbeddingImpl::forward(at::TensorList tensors,
                                                     const TokenPositions& positions) {
  return apply("rotate", tensors, options_.rope, positions);
}

std::vector<at::Tensor> RotaryEmbeddingImpl::forward_keys(at::TensorList keys,
                                                          const TokenPositions& positions) {
  return apply("rotate", keys, key_rope_, positions);
}

std::vector<at::Tensor> RotaryEmbeddingImpl::unrotate(at::TensorList tensors,
                                                      const TokenPositions& positions) {
  return apply("unrotate", tensors, options_.rope, positions);
}

void RotaryEmbeddingImpl::pretty_print(std::ostream& stream) const {
  const auto rope = find_rope(options_.rope);
  stream << "rotary::torch::RotaryEmbedding(head_dim=" << rope->layout().head_dim
         << ", rotary_dim=" << rope->frequencies().rotary_dim()
         << ", pairing=" << rotary::name_of(*rope->layout().pairing) << ")";
}

}  // namespace rotary::torch
