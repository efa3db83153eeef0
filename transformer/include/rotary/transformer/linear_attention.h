// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Linear attention with RoPE for LibTorch: a function over queries, keys and values, a state for
/// decoding, and a module.
///
///   rotary::transformer::LinearAttention attention(
///       {.model_dim = 512, .heads = 8, .attend = {.rope = text, .causal = true}});
///   at::Tensor y = attention->forward(x);
///
/// Time and memory are O(tokens). Tensors are [batch, heads, tokens, head_dim] in float32, float64,
/// bfloat16 or float16; sums are accumulated in float32, for float64 in float64. Gradients of any
/// order; no forward mode. Wrong arguments throw c10::ValueError. The same operators are
/// torch.ops.rotary.* in Python, where rotary.torch.LinearAttention has the same parameter names.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rotary/torch_positions.h"

namespace rotary::transformer {

/// Feature map phi of queries and keys.
enum class FeatureMap {
  kElu,    // "elu"    elu(x) + 1 (Katharopoulos et al. 2020)
  kRelu,   // "relu"   max(x, 0)
  kFavor,  // "favor"  FAVOR+ (Choromanski et al. 2021): positive orthogonal random features
};

/// Attention weight of key j for query i, before division by the sum over j; R rotates by the rope.
enum class LinearVariant {
  kNumerator,  // "numerator"  (R phi(q)).(R phi(k)) over sum phi(q).phi(k); RoFormer, eq. 19
  kCosine,     // "cosine"     1 + cos(R q, R k), needs no phi
  kRotated,    // "rotated"    (R phi(q)).(R phi(k)) over its own sum, bounded away from 0
  kBefore,     // "before"     phi(R q).phi(R k)
};

struct LinearAttendOptions {
  /// Text of the rope; empty: no rotation. Where it rotates FAVOR+ features, its head_dim is their
  /// number.
  std::string rope{};
  LinearVariant variant = LinearVariant::kNumerator;
  FeatureMap feature_map = FeatureMap::kElu;
  /// FAVOR+: random projection [features, head_dim], from orthogonal_features().
  std::optional<at::Tensor> projection{};
  /// Causal mask: query i attends to keys j <= i.
  bool causal = false;
  /// [batch, keys], bool: true for a token, false for padding.
  std::optional<at::Tensor> padding{};
  /// Positions, as in TokenPositions; `key_positions` where those of keys differ.
  std::optional<at::Tensor> positions{};
  std::optional<at::Tensor> key_positions{};
  c10::SymInt first = 0;
  /// Packed sequences along the tokens of a batch of 1; queries attend within their sequence. Read
  /// on the host.
  std::optional<at::Tensor> cu_seqlens{};
  /// Learned frequencies [pairs, axes] and scale [1] instead of the rope's own.
  std::optional<at::Tensor> frequencies{};
  std::optional<at::Tensor> scale{};
  /// kRotated: its denominator D = sum (R phi(q)).(R phi(k)) may vanish or be negative. It becomes
  /// sign(D) max(|D|, guard sum phi(q).phi(k)): weights grow by at most 1 / guard.
  double guard = 0.01;
  /// Exponential decay [heads of k], floating point, not negative: the weight of key j for query i
  /// is multiplied by e^(-decay |i - j|), in the numerator and in the denominator. i and j count
  /// tokens, whatever their positions. As many queries as keys; differentiable.
  std::optional<at::Tensor> decay{};
};

/// Grouped-query attention: the heads of k and v must divide those of q. v may have another
/// head_dim. A query without keys gives 0: denominators are at least 1e-6.
at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const LinearAttendOptions& options = {});

/// Recurrent state of decoding: constant size, float32 (float64 for float64), no gradient.
struct LinearState {
  /// [batch, kv_heads, F, value_dim]: sum of R phi(k) v^T. kCosine: one more row, the sum of v.
  at::Tensor kv{};
  /// [batch, kv_heads, F]: sum of the denominator's keys. kCosine: and their number; kRotated:
  /// those of D, then those of its guard. Both sums with a decay: decayed to the last token.
  at::Tensor k{};
  std::int64_t tokens = 0;
};

/// linear_attend() of tokens that follow those in `state`, and adds them to it: the prompt with an
/// empty state, then one token or more. options.causal must be set; positions continue those of the
/// state unless options.positions is given; options.first and cu_seqlens are not used.
at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         LinearState& state, LinearAttendOptions options);

/// FAVOR+ projection [features, head_dim], float32: blocks of head_dim orthogonal directions, with
/// the lengths of Gaussian vectors.
at::Tensor orthogonal_features(std::int64_t features, std::int64_t head_dim,
                               std::optional<at::Generator> generator = std::nullopt);
/// head_dim ln(head_dim), to the nearest multiple of 64.
std::int64_t default_features(std::int64_t head_dim);

struct LinearAttentionOptions {
  std::int64_t model_dim = 0;
  std::int64_t heads = 0;
  /// Heads of keys and values; 0: as many as queries have.
  std::int64_t kv_heads = 0;
  /// 0: model_dim / heads.
  std::int64_t head_dim = 0;
  /// Of values; 0: head_dim.
  std::int64_t value_dim = 0;
  /// FAVOR+: rows of the buffer `projection`; 0: default_features().
  std::int64_t features = 0;
  /// FAVOR+: forward() in training draws a new projection every so many calls; 0: never.
  std::int64_t redraw_every = 0;
  bool bias = true;
  /// Options of every call; its projection is set by the module, its decay becomes a buffer.
  LinearAttendOptions attend{};
};

/// Linear layers `query`, `key`, `value` and `output` around linear_attend().
class LinearAttentionImpl : public ::torch::nn::Module {
 public:
  explicit LinearAttentionImpl(LinearAttentionOptions options);

  /// [batch, tokens, model_dim] to the same. `padding` is [batch, tokens]; positions.token_dim is
  /// not used.
  at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& padding = std::nullopt,
                     const torch::TokenPositions& positions = {});
  /// Tokens that follow those in `state`.
  at::Tensor forward(const at::Tensor& x, LinearState& state);
  /// FAVOR+: draws a new projection.
  void redraw();
  void pretty_print(std::ostream& stream) const override;

  ::torch::nn::Linear query{nullptr};
  ::torch::nn::Linear key{nullptr};
  ::torch::nn::Linear value{nullptr};
  ::torch::nn::Linear output{nullptr};
  at::Tensor projection;  // a buffer, FAVOR+ only
  at::Tensor decay;       // a buffer, where attend.decay is given

 private:
  struct Heads {
    at::Tensor q, k, v;
  };
  Heads heads_of(const at::Tensor& x);
  at::Tensor join(const at::Tensor& y);

  LinearAttentionOptions options_;
  std::int64_t calls_ = 0;
};

class LinearAttention : public ::torch::nn::ModuleHolder<LinearAttentionImpl> {
 public:
  using ::torch::nn::ModuleHolder<LinearAttentionImpl>::ModuleHolder;
  explicit LinearAttention(LinearAttentionOptions options)
      : ModuleHolder(std::make_shared<LinearAttentionImpl>(std::move(options))) {}
};

}  // namespace rotary::transformer
