// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace rotary::roformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// State of the random generators that a computation on a device may use: the CPU's and the
/// device's.
class RandomState {
 public:
  explicit RandomState(at::Device device) : device_(device) {
    each([this](at::Generator& generator) { states_.push_back(generator.get_state()); });
  }
  void restore() const {
    std::size_t i = 0;
    each([&](at::Generator& generator) { generator.set_state(states_[i++]); });
  }

 private:
  template <typename Visit>
  void each(const Visit& visit) const {
    const auto locked = [&visit](at::Generator generator) {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      visit(generator);
    };
    locked(at::globalContext().defaultGenerator(at::kCPU));
    if (!device_.is_cpu()) locked(at::globalContext().defaultGenerator(device_));
  }

  at::Device device_;
  std::vector<at::Tensor> states_{};
};

/// Saved for backward beside tensors.
struct Saved : ::torch::CustomClassHolder {
  Saved(Computation compute_, RandomState random_, std::size_t inputs_)
      : compute(std::move(compute_)), random(std::move(random_)), inputs(inputs_) {}
  Computation compute;
  RandomState random;
  std::size_t inputs;
};

/// The first `count` tensors as leaves of a new graph.
variable_list detached(at::TensorList tensors, std::size_t count) {
  variable_list all;
  for (const at::Tensor& x : tensors.slice(0, count)) {
    all.push_back(x.detach().set_requires_grad(x.requires_grad()));
  }
  return all;
}

struct Recomputed : ::torch::autograd::Function<Recomputed> {
  static variable_list forward(AutogradContext* context, const Computation& compute,
                               std::size_t inputs, at::TensorList tensors) {
    const auto saved =
        c10::make_intrusive<Saved>(compute, RandomState(tensors.front().device()), inputs);
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    context->save_for_backward(tensors.vec());
    context->set_materialize_grads(false);
    // With a graph, although it is dropped at once: the choice of kernels may depend on it.
    const at::AutoGradMode with_grad(true);
    variable_list results = compute(detached(tensors, inputs));
    for (at::Tensor& y : results) y = y.detach();
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<Saved> saved =
        c10::static_intrusive_pointer_cast<Saved>(context->saved_data["saved"].toCapsule());
    variable_list tensors = context->get_saved_variables();
    const variable_list inputs = detached(tensors, saved->inputs);
    std::copy(inputs.begin(), inputs.end(), tensors.begin());
    variable_list wanted;
    std::vector<std::size_t> result_of;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].requires_grad()) continue;
      wanted.push_back(tensors[i]);
      result_of.push_back(kNumOther + i);
    }
    const variable_list found = recompute(*saved, inputs, wanted, grads);
    variable_list results(kNumOther + tensors.size());
    for (std::size_t i = 0; i < found.size(); ++i) results[result_of[i]] = found[i];
    return results;
  }

 private:
  static constexpr std::size_t kNumOther = 2;  // arguments of forward() that are not tensors

  static variable_list recompute(const Saved& saved, const variable_list& inputs,
                                 const variable_list& wanted, const variable_list& grads) {
    variable_list results;
    {
      const at::AutoGradMode with_grad(true);
      const RandomState now(inputs.front().device());
      saved.random.restore();
      results = saved.compute(inputs);
      now.restore();
    }
    variable_list used;
    variable_list known;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!grads[i].defined()) continue;
      used.push_back(results[i]);
      known.push_back(grads[i]);
    }
    return ::torch::autograd::grad(used, wanted, known, /*retain_graph=*/false,
                                   /*create_graph=*/false, /*allow_unused=*/true);
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const Computation& compute,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters) {
  variable_list all = inputs;
  all.insert(all.end(), parameters.begin(), parameters.end());
  return Recomputed::apply(compute, inputs.size(), at::TensorList(all));
}

}  // namespace rotary::roformer
