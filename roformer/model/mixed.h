// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Mixed precision: what a layer needs beside the operators of rotary/torch_layers.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace rotary::roformer {

/// Parameters in the type that layers compute in, kept beside them by a trainer, who writes both:
/// a pass then need not copy them. Gradients of such copies can be handed over as they are, in
/// that type, where autograd would make a wider copy of each and add it.
class NarrowWeights {
 public:
  /// `copy` has the parameter's elements; parameters that lie end to end have copies that do.
  void add(const at::Tensor& parameter, const at::Tensor& copy);
  /// All copies are what the parameters are now.
  void set_current();
  /// The copies as one, end to end along the first dimension; not defined where they do not lie so,
  /// are of another type, or a parameter has changed since set_current(). float32: the parameters.
  at::Tensor find(at::ScalarType type, at::TensorList parameters) const;

  /// Of parameters that lie end to end, from the first one on; or, with `rows`, what is to be added
  /// to those rows of the first one, [rows, ..], `skipped` aside.
  struct Gradient {
    at::Tensor first_parameter{};
    at::Tensor gradient{};
    at::Tensor rows{};
    std::int64_t skipped = -1;
  };
  /// The gradients that come back while `backward` runs, in their order; autograd does not see
  /// them.
  std::vector<Gradient> collect(const std::function<void()>& backward);
  /// False unless gradients are collected.
  bool take(const Gradient& gradient);

 private:
  struct Item {
    at::Tensor parameter{};
    at::Tensor copy{};
    std::int64_t version = 0;
  };
  std::unordered_map<const c10::TensorImpl*, Item> items_{};
  std::vector<Gradient> gradients_{};
  bool current_ = false;
  bool collects_ = false;
};

/// Each group of tensors as one, end to end along the first dimension, in another type: what is not
/// in `kept`, which may be null, is copied at once. Gradients come back in the type of the tensors.
std::vector<at::Tensor> joined_as(at::ScalarType type,
                                  const std::vector<std::vector<at::Tensor>>& groups,
                                  const std::shared_ptr<NarrowWeights>& kept = {});

/// Rows of `words` in another type, [.., width] for ids [..]. Those of `padding` have no gradient.
at::Tensor look_up(const at::Tensor& words, const at::Tensor& ids, std::int64_t padding,
                   at::ScalarType type, const std::shared_ptr<NarrowWeights>& kept);

}  // namespace rotary::roformer
