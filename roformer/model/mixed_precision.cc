// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/mixed_precision.h"

#include <ATen/Functions.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <utility>

namespace rotary::roformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// Adjacent in one allocation.
std::vector<at::Tensor> empty_like_each(at::TensorList tensors, at::ScalarType type) {
  if (tensors.empty()) return {};
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

/// One view of adjacent tensors.
at::Tensor concat_adjacent(at::TensorList tensors) {
  std::vector<std::int64_t> sizes = tensors[0].sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& x : tensors) sizes[0] += x.size(0);
  return tensors[0].as_strided(sizes, tensors[0].strides());
}

/// The store in an autograd context.
struct StoreHolder : ::torch::CustomClassHolder {
  explicit StoreHolder(StorePtr store_) : store(std::move(store_)) {}
  StorePtr store;
};

void save_store(AutogradContext& context, const StorePtr& store) {
  context.saved_data["store"] = c10::IValue::make_capsule(c10::make_intrusive<StoreHolder>(store));
}

StorePtr saved_store(AutogradContext& context) {
  return c10::static_intrusive_pointer_cast<StoreHolder>(context.saved_data["store"].toCapsule())
      ->store;
}

/// `tensors` and `indices` are those of all groups, one after the other; `members[g]` of them make
/// group g.
struct CastAndConcat : ::torch::autograd::Function<CastAndConcat> {
  static variable_list forward(AutogradContext* context, at::ScalarType type,
                               const std::vector<std::int64_t>& members,
                               const std::vector<ParameterIndex>& indices, const StorePtr& store,
                               at::TensorList tensors) {
    const at::AutoDispatchBelowADInplaceOrView below;  // autograd must not see results as views
    context->saved_data["members"] = members;
    context->saved_data["indices"] = indices;
    save_store(*context, store);
    context->save_for_backward(tensors.vec());
    variable_list groups;
    std::vector<std::int64_t> found;
    std::vector<at::Tensor> missing;
    std::size_t next = 0;
    for (const std::int64_t count : members) {
      std::vector<Parameter> group;
      for (std::int64_t i = 0; i < count; ++i, ++next) {
        group.push_back({.tensor = tensors[next], .index = indices[next]});
      }
      groups.push_back(store ? store->find(type, group) : at::Tensor());
      found.push_back(groups.back().defined() ? 1 : 0);
      if (found.back() != 0) continue;
      for (const Parameter& parameter : group) missing.push_back(parameter.tensor);
    }
    context->saved_data["found"] = found;
    const std::vector<at::Tensor> copies = empty_like_each(missing, type);
    if (!copies.empty()) at::_foreach_copy_(copies, missing);
    next = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].defined()) continue;
      const auto count = static_cast<std::size_t>(members[g]);
      groups[g] = concat_adjacent(at::TensorList(copies).slice(next, count));
      next += count;
    }
    return groups;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list tensors = context->get_saved_variables();
    const std::vector<std::int64_t> members = context->saved_data["members"].toIntVector();
    const std::vector<std::int64_t> indices = context->saved_data["indices"].toIntVector();
    const std::vector<std::int64_t> found = context->saved_data["found"].toIntVector();
    const StorePtr store = saved_store(*context);
    constexpr std::size_t kNumOther = 4;  // arguments of forward() that are not tensors
    variable_list results(kNumOther + tensors.size());
    std::vector<at::Tensor> own;
    std::vector<at::Tensor> narrow;
    std::vector<std::size_t> result_of;
    std::size_t next = 0;
    for (std::size_t g = 0; g < members.size(); ++g) {
      const std::size_t end = next + static_cast<std::size_t>(members[g]);
      const bool taken =
          found[g] != 0 && store->take({.index = indices[next], .gradient = grads[g]});
      std::int64_t first = 0;
      for (; next < end; ++next) {
        if (taken) continue;
        own.push_back(tensors[next]);
        narrow.push_back(grads[g].narrow(0, first, tensors[next].size(0)));
        result_of.push_back(kNumOther + next);
        first += tensors[next].size(0);
      }
    }
    if (own.empty()) return results;
    const std::vector<at::Tensor> wide = empty_like_each(own, own.front().scalar_type());
    at::_foreach_copy_(wide, narrow);
    for (std::size_t i = 0; i < wide.size(); ++i) results[result_of[i]] = wide[i];
    return results;
  }
};

struct EmbeddingLookup : ::torch::autograd::Function<EmbeddingLookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight,
                            ParameterIndex index, const at::Tensor& ids, std::int64_t padding_row,
                            at::ScalarType type, const StorePtr& store) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["index"] = index;
    context->saved_data["padding_row"] = padding_row;
    save_store(*context, store);
    context->save_for_backward({weight, ids});
    const at::Tensor narrow =
        store ? store->find(type, {{.tensor = weight, .index = index}}) : at::Tensor();
    return narrow.defined() ? at::embedding(narrow, ids) : at::embedding(weight, ids).to(type);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t padding_row = context->saved_data["padding_row"].toInt();
    const StorePtr store = saved_store(*context);
    variable_list results(6);
    const at::Tensor& weight = saved[0];
    const at::Tensor& ids = saved[1];
    if (store && store->take({.index = context->saved_data["index"].toInt(),
                              .gradient = grads[0].reshape({-1, grads[0].size(-1)}),
                              .rows = ids.flatten(),
                              .padding_row = padding_row})) {
      return results;
    }
    results[0] = at::embedding_dense_backward(grads[0].to(weight.scalar_type()), ids,
                                              weight.size(0), padding_row,
                                              /*scale_grad_by_freq=*/false);
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> cast_and_concat(at::ScalarType type,
                                        const std::vector<std::vector<Parameter>>& groups,
                                        const StorePtr& store) {
  std::vector<std::int64_t> members;
  std::vector<ParameterIndex> indices;
  std::vector<at::Tensor> tensors;
  for (const std::vector<Parameter>& group : groups) {
    members.push_back(static_cast<std::int64_t>(group.size()));
    for (const Parameter& parameter : group) {
      indices.push_back(parameter.index);
      tensors.push_back(parameter.tensor);
    }
  }
  return CastAndConcat::apply(type, members, indices, store, at::TensorList(tensors));
}

at::Tensor cast(at::ScalarType type, const Parameter& parameter, const StorePtr& store) {
  return store ? cast_and_concat(type, {{parameter}}, store)[0] : parameter.tensor.to(type);
}

at::Tensor embedding_lookup(const Parameter& weight, const at::Tensor& ids,
                            std::int64_t padding_row, at::ScalarType type, const StorePtr& store) {
  return EmbeddingLookup::apply(weight.tensor, weight.index, ids, padding_row, type, store);
}

}  // namespace rotary::roformer
