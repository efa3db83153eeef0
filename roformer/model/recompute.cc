// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/recompute.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <utility>

namespace rotary::roformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// The generators that a computation on a device draws from: the host's and the device's.
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

/// What the way back needs beside tensors.
struct Plan : ::torch::CustomClassHolder {
  Plan(Computation compute_, RandomState random_, std::size_t inputs_)
      : compute(std::move(compute_)), random(std::move(random_)), inputs(inputs_) {}
  Computation compute;
  RandomState random;
  std::size_t inputs;
};

struct Recomputed : ::torch::autograd::Function<Recomputed> {
  static at::Tensor forward(AutogradContext* context, const Computation& compute,
                            std::size_t inputs, at::TensorList tensors) {
    const auto plan =
        c10::make_intrusive<Plan>(compute, RandomState(tensors.front().device()), inputs);
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    context->save_for_backward(tensors.vec());
    return compute(tensors.slice(0, inputs).vec());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<Plan> plan =
        c10::static_intrusive_pointer_cast<Plan>(context->saved_data["plan"].toCapsule());
    variable_list tensors = context->get_saved_variables();
    variable_list wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i < plan->inputs) {
        const bool needs_grad = tensors[i].requires_grad();
        tensors[i] = tensors[i].detach().set_requires_grad(needs_grad);
      }
      if (!tensors[i].requires_grad()) continue;
      wanted.push_back(tensors[i]);
      places.push_back(i);
    }
    const variable_list found =
        again(*plan, {tensors.begin(), tensors.begin() + plan->inputs}, wanted, grads.front());
    variable_list results(2 + tensors.size());  // two arguments are no tensors
    for (std::size_t i = 0; i < found.size(); ++i) results[2 + places[i]] = found[i];
    return results;
  }

 private:
  static variable_list again(const Plan& plan, const variable_list& inputs,
                             const variable_list& wanted, const at::Tensor& grad) {
    at::Tensor result;
    {
      const at::AutoGradMode with_grad(true);
      const RandomState now(inputs.front().device());
      plan.random.restore();
      result = plan.compute(inputs);
      now.restore();
    }
    return ::torch::autograd::grad({result}, wanted, {grad}, /*retain_graph=*/false,
                                   /*create_graph=*/false, /*allow_unused=*/true);
  }
};

}  // namespace

at::Tensor recomputed(const Computation& compute, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& parameters) {
  variable_list all = inputs;
  all.insert(all.end(), parameters.begin(), parameters.end());
  return Recomputed::apply(compute, inputs.size(), at::TensorList(all));
}

}  // namespace rotary::roformer
