// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The module of linear attention, with LibTorch alone: against the formula written out, token by
// token, and trained.

#include <rotary/torch.h>
#include <rotary/transformer/linear_attention.h>
#include <torch/optim/adam.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using rotary::transformer::LinearAttention;
using rotary::transformer::LinearVariant;

std::string rope(std::int64_t head_dim) {
  return rotary::torch::to_text(
      rotary::Rope(rotary::make_frequencies({.rotary_dim = head_dim, .theta = 100.0}),
                   {.head_dim = head_dim, .pairing = rotary::Pairing::kHalf}));
}

LinearAttention make(LinearVariant variant) {
  LinearAttention attention({.model_dim = 64,
                             .heads = 4,
                             .kv_heads = 2,
                             .attend = {.rope = rope(16), .variant = variant, .causal = true}});
  attention->to(at::kDouble);
  return attention;
}

at::Tensor heads(const at::Tensor& x, std::int64_t count) {
  return x.unflatten(-1, {count, 16}).transpose(1, 2).repeat_interleave(4 / count, 1);
}

/// out_i = sum_j (R_i phi(q_i)).(R_j phi(k_j)) v_j / sum_j phi(q_i).phi(k_j), j <= i.
at::Tensor formula(LinearAttention& attention, const at::Tensor& x) {
  const at::Tensor q = at::elu(heads(attention->query(x), 4)) + 1;
  const at::Tensor k = at::elu(heads(attention->key(x), 2)) + 1;
  const auto rotated = rotary::torch::rotate({q, k}, rope(16), {.token_dim = -2});
  const at::Tensor above = at::matmul(rotated[0], rotated[1].mT()).tril();
  const at::Tensor below = at::matmul(q, k.mT()).tril().sum(-1, true);
  const at::Tensor y = at::matmul(above, heads(attention->value(x), 2)) / below;
  return attention->output(y.transpose(1, 2).flatten(-2));
}

bool same(const std::string& what, const at::Tensor& a, const at::Tensor& b) {
  const bool equal = at::allclose(a, b, 1e-9, 1e-9);
  std::printf("%s %d\n", what.c_str(), equal);
  return equal;
}

bool decodes(LinearVariant variant, const at::Tensor& x) {
  LinearAttention attention = make(variant);
  const torch::NoGradGuard guard;
  rotary::transformer::LinearState state;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : x.split({66, 1, 3}, 1)) {
    parts.push_back(attention->forward(part, state));
  }
  return same("decoding", at::cat(parts, 1), attention->forward(x)) && state.tokens == 70;
}

bool learns(const at::Tensor& x) {
  LinearAttention attention = make(LinearVariant::kCosine);
  torch::optim::Adam optimizer(attention->parameters(), 0.01);
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < 40; ++step) {
    const at::Tensor loss = (attention->forward(x) - x.roll(1, 1)).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  std::printf("loss %.4f, then %.4f\n", first, last);
  return last < 0.8 * first;
}

bool redraws(const at::Tensor& x) {
  LinearAttention attention(
      {.model_dim = 64,
       .heads = 4,
       .features = 48,
       .redraw_every = 2,
       .attend = {.rope = rope(48), .feature_map = rotary::transformer::FeatureMap::kFavor}});
  attention->to(at::kDouble);
  const at::Tensor first = attention->projection.clone();
  attention->forward(x);
  const bool kept = at::equal(first, attention->projection);
  attention->forward(x);
  const bool drawn = !at::equal(first, attention->named_buffers()["projection"]);
  std::printf("kept %d, drawn %d\n", kept, drawn);
  return kept && drawn;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  const at::Tensor x = torch::randn({2, 70, 64}, at::kDouble);
  LinearAttention attention = make(LinearVariant::kNumerator);
  bool good = same("formula", attention->forward(x), formula(attention, x));
  for (const auto variant : {LinearVariant::kNumerator, LinearVariant::kCosine,
                             LinearVariant::kRotated, LinearVariant::kBefore}) {
    good = decodes(variant, x) && good;
  }
  good = learns(x) && redraws(x) && good;
  // As Python's module has it.
  good = rotary::transformer::default_features(64) == 256 &&
         rotary::transformer::default_features(16) == 64 && good;
  bool refused = false;
  try {
    attention->forward(x[0]);
  } catch (const c10::ValueError&) {
    refused = true;
  }
  return good && refused ? 0 : 1;
}
