// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/mixed.h"

#include <ATen/Functions.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <utility>

namespace rotary::roformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// One after the other in one piece of memory.
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

/// Of tensors that lie end to end.
at::Tensor as_one(at::TensorList tensors) {
  std::vector<std::int64_t> sizes = tensors[0].sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& x : tensors) sizes[0] += x.size(0);
  return tensors[0].as_strided(sizes, tensors[0].strides());
}

bool lie_end_to_end(at::TensorList tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_contiguous()) return false;
    if (i == 0) continue;
    const auto* end =
        static_cast<const std::byte*>(tensors[i - 1].const_data_ptr()) + tensors[i - 1].nbytes();
    if (tensors[i].const_data_ptr() != end) return false;
  }
  return true;
}

struct Kept : ::torch::CustomClassHolder {
  explicit Kept(std::shared_ptr<NarrowWeights> weights_) : weights(std::move(weights_)) {}
  std::shared_ptr<NarrowWeights> weights;
};

/// `members[g]` tensors make group g.
struct JoinedAs : ::torch::autograd::Function<JoinedAs> {
  static variable_list forward(AutogradContext* context, at::ScalarType type,
                               const std::vector<std::int64_t>& members,
                               const std::shared_ptr<NarrowWeights>& kept, at::TensorList tensors) {
    const at::AutoDispatchBelowADInplaceOrView below;  // results are no views to autograd
    context->saved_data["members"] = members;
    context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(kept));
    context->save_for_backward(tensors.vec());
    variable_list groups;
    std::vector<at::Tensor> missing;
    std::size_t first = 0;
    for (const std::int64_t count : members) {
      const at::TensorList group = tensors.slice(first, static_cast<std::size_t>(count));
      groups.push_back(kept ? kept->find(type, group) : at::Tensor());
      if (!groups.back().defined()) missing.insert(missing.end(), group.begin(), group.end());
      first += group.size();
    }
    std::vector<std::int64_t> found;
    for (const at::Tensor& group : groups) found.push_back(group.defined() ? 1 : 0);
    context->saved_data["found"] = found;
    const std::vector<at::Tensor> copies = empty_like_each(missing, type);
    if (!copies.empty()) at::_foreach_copy_(copies, missing);
    std::size_t next = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].defined()) continue;
      const auto count = static_cast<std::size_t>(members[g]);
      groups[g] = as_one(at::TensorList(copies).slice(next, count));
      next += count;
    }
    return groups;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list tensors = context->get_saved_variables();
    const std::vector<std::int64_t> members = context->saved_data["members"].toIntVector();
    const std::vector<std::int64_t> found = context->saved_data["found"].toIntVector();
    const auto kept =
        c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    variable_list results(3);  // type, members and kept
    std::vector<at::Tensor> own;
    std::vector<at::Tensor> parts;
    std::vector<std::size_t> places;
    std::size_t next = 0;
    for (std::size_t g = 0; g < members.size(); ++g) {
      const auto count = static_cast<std::size_t>(members[g]);
      const bool taken = found[g] != 0 && kept->weights->take({tensors[next], grads[g]});
      std::int64_t first = 0;
      for (std::size_t i = next; i < next + count; ++i) {
        results.emplace_back();
        if (taken) continue;
        own.push_back(tensors[i]);
        parts.push_back(grads[g].narrow(0, first, tensors[i].size(0)));
        places.push_back(3 + i);
        first += tensors[i].size(0);
      }
      next += count;
    }
    if (own.empty()) return results;
    const std::vector<at::Tensor> wide = empty_like_each(own, own.front().scalar_type());
    at::_foreach_copy_(wide, parts);
    for (std::size_t i = 0; i < wide.size(); ++i) results[places[i]] = wide[i];
    return results;
  }
};

struct LookUp : ::torch::autograd::Function<LookUp> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& words,
                            const at::Tensor& ids, std::int64_t padding, at::ScalarType type,
                            const std::shared_ptr<NarrowWeights>& kept) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["padding"] = padding;
    context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(kept));
    context->save_for_backward({words, ids});
    const at::Tensor narrow = kept ? kept->find(type, words) : at::Tensor();
    return narrow.defined() ? at::embedding(narrow, ids) : at::embedding(words, ids).to(type);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t padding = context->saved_data["padding"].toInt();
    const auto kept =
        c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    variable_list results(5);
    const at::Tensor& ids = saved[1];
    if (kept->weights && kept->weights->take({.first_parameter = saved[0],
                                              .gradient = grads[0].reshape({-1, grads[0].size(-1)}),
                                              .rows = ids.flatten(),
                                              .skipped = padding})) {
      return results;
    }
    results[0] = at::embedding_dense_backward(grads[0].to(saved[0].scalar_type()), ids,
                                              saved[0].size(0), padding,
                                              /*scale_grad_by_freq=*/false);
    return results;
  }
};

}  // namespace

void NarrowWeights::add(const at::Tensor& parameter, const at::Tensor& copy) {
  items_[parameter.unsafeGetTensorImpl()] = {.parameter = parameter, .copy = copy};
}

void NarrowWeights::set_current() {
  for (auto& [key, item] : items_) item.version = item.parameter._version();
  current_ = true;
}

at::Tensor NarrowWeights::find(at::ScalarType type, at::TensorList parameters) const {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) {
    const auto at = items_.find(parameter.unsafeGetTensorImpl());
    if (at == items_.end()) return {};
    const Item& item = at->second;
    if (type == parameter.scalar_type()) {
      copies.push_back(parameter.detach());
    } else if (current_ && item.copy.scalar_type() == type &&
               parameter._version() == item.version) {
      copies.push_back(item.copy);
    } else {
      return {};
    }
  }
  return lie_end_to_end(copies) ? as_one(copies) : at::Tensor();
}

std::vector<NarrowWeights::Gradient> NarrowWeights::collect(const std::function<void()>& backward) {
  struct End {
    NarrowWeights& weights;
    ~End() {
      weights.collects_ = false;
      weights.gradients_.clear();
    }
  };
  const End end{*this};
  collects_ = true;
  backward();
  return std::exchange(gradients_, {});
}

bool NarrowWeights::take(const Gradient& gradient) {
  if (collects_) gradients_.push_back(gradient);
  return collects_;
}

std::vector<at::Tensor> joined_as(at::ScalarType type,
                                  const std::vector<std::vector<at::Tensor>>& groups,
                                  const std::shared_ptr<NarrowWeights>& kept) {
  std::vector<std::int64_t> members;
  std::vector<at::Tensor> all;
  for (const std::vector<at::Tensor>& group : groups) {
    members.push_back(static_cast<std::int64_t>(group.size()));
    all.insert(all.end(), group.begin(), group.end());
  }
  return JoinedAs::apply(type, members, kept, at::TensorList(all));
}

at::Tensor look_up(const at::Tensor& words, const at::Tensor& ids, std::int64_t padding,
                   at::ScalarType type, const std::shared_ptr<NarrowWeights>& kept) {
  return LookUp::apply(words, ids, padding, type, kept);
}

}  // namespace rotary::roformer
