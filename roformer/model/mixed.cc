// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/mixed.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace rotary::roformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// One after the other in one piece of memory.
std::vector<at::Tensor> empty_like_each(at::TensorList tensors, at::ScalarType type) {
  std::int64_t count = 0;
  for (const at::Tensor& x : tensors) count += x.numel();
  const at::Tensor all = at::empty({count}, tensors.front().options().dtype(type));
  std::vector<at::Tensor> views;
  std::int64_t first = 0;
  for (const at::Tensor& x : tensors) {
    views.push_back(all.narrow(0, first, x.numel()).view(x.sizes()));
    first += x.numel();
  }
  return views;
}

/// `members[g]` tensors make group g.
struct JoinedAs : ::torch::autograd::Function<JoinedAs> {
  static variable_list forward(AutogradContext* context, at::ScalarType type,
                               const std::vector<std::int64_t>& members, at::TensorList tensors) {
    const at::AutoDispatchBelowADInplaceOrView below;  // results are no views to autograd
    context->saved_data["members"] = members;
    context->save_for_backward(tensors.vec());
    const std::vector<at::Tensor> copies = empty_like_each(tensors, type);
    at::_foreach_copy_(copies, tensors);
    variable_list groups;
    auto copy = copies.begin();
    for (const std::int64_t count : members) {
      std::vector<std::int64_t> sizes = copy->sizes().vec();
      sizes[0] = 0;
      const at::Tensor& first = *copy;
      for (std::int64_t i = 0; i < count; ++i, ++copy) sizes[0] += copy->size(0);
      groups.push_back(first.as_strided(sizes, first.strides()));
    }
    return groups;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list tensors = context->get_saved_variables();
    std::vector<at::Tensor> parts;
    const std::vector<std::int64_t> members = context->saved_data["members"].toIntVector();
    for (std::size_t g = 0; g < members.size(); ++g) {
      std::int64_t first = 0;
      for (std::int64_t i = 0; i < members[g]; ++i) {
        const std::int64_t rows = tensors[parts.size()].size(0);
        parts.push_back(grads[g].narrow(0, first, rows));
        first += rows;
      }
    }
    const std::vector<at::Tensor> wide = empty_like_each(tensors, tensors.front().scalar_type());
    at::_foreach_copy_(wide, parts);
    variable_list results(2);  // type and members
    results.insert(results.end(), wide.begin(), wide.end());
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> joined_as(at::ScalarType type,
                                  const std::vector<std::vector<at::Tensor>>& groups) {
  std::vector<std::int64_t> members;
  std::vector<at::Tensor> all;
  for (const std::vector<at::Tensor>& group : groups) {
    members.push_back(static_cast<std::int64_t>(group.size()));
    all.insert(all.end(), group.begin(), group.end());
  }
  return JoinedAs::apply(type, members, at::TensorList(all));
}

}  // namespace rotary::roformer
