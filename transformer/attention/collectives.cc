// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/attention/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <string>

#include "pytorch/autograd_node.h"
#include "pytorch/operator.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::variable_list;
using Signature = at::Tensor(const at::Tensor&, std::string_view, std::int64_t);

enum class Collective { kAllGather, kReduceScatter };

constexpr Collective backward_of(Collective which) {
  return which == Collective::kAllGather ? Collective::kReduceScatter : Collective::kAllGather;
}

at::Tensor call(Collective which, const at::Tensor& x, std::string_view group, std::int64_t ranks) {
  static const auto gather = torch::find_operator<Signature>("rotary::all_gather");
  static const auto scatter = torch::find_operator<Signature>("rotary::reduce_scatter");
  return (which == Collective::kAllGather ? gather : scatter).call(x, group, ranks);
}

/// PyTorch's functional collectives, boxed: versions differ in how their schema names a group.
at::Tensor run_boxed(const char* name, c10::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack.at(0).toTensor();
}

template <Collective kWhich>
at::Tensor run(const at::Tensor& x, std::string_view group, std::int64_t ranks) {
  const c10::IValue name{std::string(group)};
  const at::Tensor started =
      kWhich == Collective::kAllGather
          ? run_boxed("_c10d_functional::all_gather_into_tensor", {x.contiguous(), ranks, name})
          : run_boxed("_c10d_functional::reduce_scatter_tensor",
                      {x.contiguous(), std::string("sum"), ranks, name});
  return run_boxed("_c10d_functional::wait_tensor", {started});
}

struct CollectiveBackward : ::torch::autograd::Node {
  Collective which = Collective::kAllGather;
  std::string group{};
  std::int64_t ranks = 1;

  std::string name() const override {
    return which == Collective::kAllGather ? "Rotary_all_gather_Backward"
                                           : "Rotary_reduce_scatter_Backward";
  }
  variable_list apply(variable_list&& grads) override {
    // Every rank must call this: a collective waits for all.
    return {grads[0].defined() ? call(backward_of(which), grads[0], group, ranks) : at::Tensor()};
  }
};

template <Collective kWhich>
at::Tensor run_recorded(const at::Tensor& x, std::string_view group, std::int64_t ranks) {
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    result = call(kWhich, x, group, ranks);
  }
  if (::torch::autograd::compute_requires_grad(x)) {
    auto node = torch::make_node<CollectiveBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x));
    node->which = kWhich;
    node->group = std::string(group);
    node->ranks = ranks;
    ::torch::autograd::set_history(result, node);
  }
  return result;
}

}  // namespace

at::Tensor call_all_gather(const at::Tensor& x, std::string_view group, std::int64_t ranks) {
  return call(Collective::kAllGather, x, group, ranks);
}
at::Tensor call_reduce_scatter(const at::Tensor& x, std::string_view group, std::int64_t ranks) {
  return call(Collective::kReduceScatter, x, group, ranks);
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def("all_gather(Tensor x, str group, int ranks) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("reduce_scatter(Tensor x, str group, int ranks) -> Tensor", {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(rotary, CompositeExplicitAutograd, m) {
  using rotary::transformer::Collective;
  m.impl("all_gather", rotary::transformer::run<Collective::kAllGather>);
  m.impl("reduce_scatter", rotary::transformer::run<Collective::kReduceScatter>);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  using rotary::transformer::Collective;
  m.impl("all_gather", rotary::transformer::run_recorded<Collective::kAllGather>);
  m.impl("reduce_scatter", rotary::transformer::run_recorded<Collective::kReduceScatter>);
}
