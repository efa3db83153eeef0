// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Trains the frequencies of a rope towards those of another, with LibTorch alone.

#include <rotary/torch.h>
#include <torch/optim/adam.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

std::string text(double theta) {
  return rotary::torch::to_text(
      rotary::Rope(rotary::make_frequencies({.rotary_dim = 16, .theta = theta}),
                   {.head_dim = 16, .pairing = rotary::Pairing::kHalf}));
}

}  // namespace

int main() {
  torch::manual_seed(0);
  const std::string target = text(1000.0);
  rotary::torch::RotaryEmbedding fixed({.rope = target});
  rotary::torch::RotaryEmbedding learning(
      {.rope = text(10000.0), .learn = rotary::torch::Learn::kLogGain, .learn_scale = true});
  torch::optim::Adam optimizer(learning->parameters(), 0.05);
  const at::Tensor q = torch::randn({2, 6, 4, 16});
  const at::Tensor k = torch::randn({2, 6, 1, 16});
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < 100; ++step) {
    const auto wanted = fixed->forward({q, k}, {.first = 3});
    const auto given = learning->forward({q, k}, {.first = 3});
    const at::Tensor loss =
        (given[0] - wanted[0]).square().mean() + (given[1] - wanted[1]).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  const auto back = fixed->unrotate(fixed->forward({q, k}));
  const bool inverse = at::allclose(back[0], q, 1e-5, 1e-5);
  at::Tensor in_place = q.clone();
  rotary::torch::rotate_(in_place, target, {.first = 3});
  const bool same = at::equal(in_place, fixed->forward(q, {.first = 3})[0]);
  bool refused = false;
  try {
    rotary::torch::rotate({q}, "not a rope");
  } catch (const c10::ValueError&) {
    refused = true;
  }
  std::printf("loss %.6f, then %.6f; inverse %d, in place %d, refused %d\n", first, last, inverse,
              same, refused);
  return last < 0.01 * first && inverse && same && refused ? 0 : 1;
}
