// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The scans as operators: schemas, calls through the dispatcher, and Meta implementations.

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "pytorch/operator.h"
#include "transformer/linear_attention/scans.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using ProductSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                    const OptionalTensor&, std::string_view);
using DotSignature = at::Tensor(const at::Tensor&, const at::Tensor&, std::string_view);
using SumSignature = at::Tensor(const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                                std::string_view);

at::Tensor product_meta(const at::Tensor& x, const at::Tensor&, const at::Tensor& w,
                        const OptionalTensor&, std::string_view) {
  c10::SymDimVector sizes(x.sym_sizes());
  sizes.back() = w.sym_size(-1);
  return at::empty_symint(sizes, w.options());
}

at::Tensor dot_meta(const at::Tensor& x, const at::Tensor&, std::string_view) {
  c10::SymDimVector sizes(x.sym_sizes());
  sizes.pop_back();
  return at::empty_symint(sizes, x.options().dtype(accum_type(x.scalar_type())));
}

at::Tensor sum_meta(const at::Tensor& x, const OptionalTensor&, const OptionalTensor&,
                    std::string_view) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

}  // namespace

Direction direction_of(std::string_view name) {
  for (const Direction each : {Direction::kCausal, Direction::kReverse, Direction::kAll}) {
    if (name == name_of(each)) return each;
  }
  TORCH_CHECK_VALUE(false, "[linear_product] direction must be causal, reverse or all, got ",
                    std::string(name));
}

std::string_view name_of(Direction direction) {
  switch (direction) {
    case Direction::kCausal:
      return "causal";
    case Direction::kReverse:
      return "reverse";
    case Direction::kAll:
      break;
  }
  return "all";
}

at::Tensor call_linear_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                               const OptionalTensor& scale, Direction direction) {
  static const auto handle = torch::find_operator<ProductSignature>("rotary::linear_product");
  return handle.call(x, y, w, scale, name_of(direction));
}

at::Tensor call_linear_dot(const at::Tensor& x, const at::Tensor& y, Direction direction) {
  static const auto handle = torch::find_operator<DotSignature>("rotary::linear_dot");
  return handle.call(x, y, name_of(direction));
}

at::Tensor call_linear_sum(const at::Tensor& x, const OptionalTensor& weight,
                           const OptionalTensor& scale, Direction direction) {
  static const auto handle = torch::find_operator<SumSignature>("rotary::linear_sum");
  return handle.call(x, weight, scale, name_of(direction));
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def(
      "linear_product(Tensor x, Tensor y, Tensor w, Tensor? scale=None, str direction='causal') -> "
      "Tensor",
      {at::Tag::pt2_compliant_tag});
  m.def("linear_dot(Tensor x, Tensor y, str direction='causal') -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.def(
      "linear_sum(Tensor x, Tensor? weight=None, Tensor? scale=None, str direction='causal') -> "
      "Tensor",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("linear_product", rotary::transformer::product_meta);
  m.impl("linear_dot", rotary::transformer::dot_meta);
  m.impl("linear_sum", rotary::transformer::sum_meta);
}
