// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Compute types and activation checkpointing: what they change and what they must not.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/function.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/model.h"
#include "roformer/model_testing.h"
#include "roformer/roformer_testing.h"

namespace rotary::roformer {
namespace {

std::vector<at::Tensor> gradients(const Model& m) {
  at::manual_seed(3);  // for dropout
  m->zero_grad();
  const at::Tensor ids = ids_of(2, 9);
  m->forward({.ids = ids, .labels = ids}).loss.backward();
  std::vector<at::Tensor> all;
  for (const auto& p : m->named_parameters()) {
    EXPECT_TRUE(p.value().grad().defined()) << p.key();
    all.push_back(p.value().grad().defined() ? p.value().grad().clone() : at::Tensor());
  }
  return all;
}

TEST(Checkpointing, GivesTheSameGradientsBitForBit) {
  for (const char* encoding : {"rope", "rope+t5"}) {  // T5's bias is learned, and of all layers
    for (const auto& [training, type] :
         {std::pair(true, at::kFloat), std::pair(false, at::kFloat), std::pair(true, at::kBFloat16),
          std::pair(false, at::kBFloat16)}) {
      Config config = small(Task::kMaskedLm);
      config.position_encoding = encoding;
      const Model m = make(config);
      m->train(training);
      m->set_compute_type(type);
      const auto plain = gradients(m);
      const double next = at::rand({1}).item<double>();
      m->set_checkpointing(true);
      const auto again = gradients(m);
      EXPECT_EQ(at::rand({1}).item<double>(), next) << "draws went on elsewhere";
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_TRUE(at::equal(plain[i], again[i])) << encoding << " " << i;
      }
    }
  }
}

TEST(Checkpointing, SavesNoActivationsOfLayers) {
  const Model m = make(small(Task::kMaskedLm));
  const auto saved = [&] {  // by the graph of one pass
    const at::Tensor logits = m->forward({.ids = ids_of(1, 6)}).logits;
    std::size_t nodes = 0;
    std::vector<::torch::autograd::Node*> open = {logits.grad_fn().get()};
    for (std::set<::torch::autograd::Node*> seen; !open.empty(); ++nodes) {
      ::torch::autograd::Node* node = open.back();
      open.pop_back();
      for (const auto& edge : node->next_edges()) {
        if (edge.function && seen.insert(edge.function.get()).second) {
          open.push_back(edge.function.get());
        }
      }
    }
    return nodes;
  };
  const std::size_t plain = saved();
  m->set_checkpointing(true);
  EXPECT_LT(saved() + 30, plain);
}

TEST(ComputeType, AppliesToLayersNotToParameters) {
  for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification,
                          Task::kTokenClassification, Task::kQuestionAnswering}) {
    const Model m = make(small(task));
    const at::Tensor ids = ids_of(2, 9);
    const Output wide = m->forward({.ids = ids});
    m->set_compute_type(at::kBFloat16);
    const Output narrow = m->forward({.ids = ids});
    EXPECT_EQ(narrow.hidden.scalar_type(), at::kBFloat16);
    EXPECT_LE(apart(narrow.hidden, wide.hidden), 0.08);  // 2^-9 of numbers up to 3, some ten times
    EXPECT_GT(apart(narrow.hidden, wide.hidden), 0.0);
    const double scale = wide.logits.abs().max().item<double>();
    EXPECT_LE(apart(narrow.logits, wide.logits), 0.06 * scale) << static_cast<int>(task);
  }
  const Model m = make(small(Task::kMaskedLm));
  const auto wide = gradients(m);
  m->set_compute_type(at::kBFloat16);
  const auto narrow = gradients(m);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(narrow[i].scalar_type(), at::kFloat);
    const double scale = wide[i].abs().max().item<double>();
    EXPECT_LE(apart(narrow[i], wide[i]), 0.1 * scale + 1e-3) << i;
  }
  EXPECT_THAT(thrown([&] { m->set_compute_type(at::kLong); }),
              testing::HasSubstr("[RoFormer] the compute type must be a floating-point type, got"));
}

}  // namespace
}  // namespace rotary::roformer
