// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Position encodings: RoPE and its peers behind one interface.
///
///   auto encoding =
///       rotary::transformer::make_encoding({.name = "rope+alibi", .heads = 8, .rope = text});
///   x = encoding->embed(x);                                    // encodings of the input
///   rotary::transformer::Attention attention({.model_dim = 512, .heads = 8, .encoding =
///   encoding});
///
/// An encoding acts on the input (added to token embeddings), on queries and keys (rotated), on the
/// attention scores (a bias, or one that depends on the content: on queries and keys, which may act
/// on the outputs, too), or on several of these, and leaves the rest unchanged. Each follows
/// its paper; docs/attention.md has the formulas. rotary.torch.encodings is the same in Python,
/// with the same parameter names.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/torch.h"

namespace rotary::transformer {

/// What an encoding acts on.
struct EncodingTargets {
  bool input = false;
  bool query_key = false;
  bool score = false;
  bool content = false;
};

/// Positions of the queries and keys of a score matrix: `queries` consecutive ones from `first` on
/// and `keys` from 0 on, unless positions are given as tensors, [tokens] or [batch, tokens].
struct ScorePositions {
  c10::SymInt queries = 0;
  c10::SymInt keys = 0;
  c10::SymInt first = 0;
  std::optional<at::Tensor> query_positions{};
  std::optional<at::Tensor> key_positions{};
};

class EncodingImpl : public ::torch::nn::Module {
 public:
  using ::torch::nn::Module::Module;

  virtual EncodingTargets targets() const = 0;

  /// Encodes the input, x [.., tokens, model_dim]; token_dim of the positions is ignored.
  virtual at::Tensor embed(const at::Tensor& x, const torch::TokenPositions& positions = {});

  /// Rotates queries, then keys (or what is rotated as keys are), in one launch where all have the
  /// same positions. `key_positions`: where those of the keys differ.
  virtual std::vector<at::Tensor> rotate(at::TensorList queries, at::TensorList keys,
                                         const torch::TokenPositions& positions,
                                         const torch::TokenPositions* key_positions = nullptr);

  /// Bias of the scores, [heads, queries, keys] on the device of `like`, with a batch in front
  /// where positions have one; none where the encoding has no bias.
  virtual std::optional<at::Tensor> bias(const ScorePositions& positions, const at::Tensor& like);

  /// Scores beside q k^T that depend on queries q or keys k, [batch, heads, tokens, head_dim],
  /// before both are scaled: [batch, heads, queries, keys]. Distances are those of token indices;
  /// query t has the index of key `first` + t.
  virtual std::optional<at::Tensor> content_bias(const at::Tensor& q, const at::Tensor& k,
                                                 const c10::SymInt& first);
  /// AttendOptions::value_vectors, on the device of `like`; none where outputs are those of the
  /// values alone.
  virtual std::optional<at::Tensor> value_vectors(const at::Tensor& like);

  /// Factor of the scores beside 1 / sqrt(head_dim).
  virtual double softmax_scale() const { return 1.0; }
};

// ---- As functions: torch.ops.rotary.* ----------------------------------------------------------

/// Positions of one axis as a tensor, [tokens] or [batch, tokens], on the device of `like`: int64,
/// or floating point where the given positions are.
at::Tensor token_positions(const torch::TokenPositions& positions, const c10::SymInt& tokens,
                           const at::Tensor& like);

/// x + PE, computed in float64 (Vaswani et al. 2017, 3.5): PE(p, 2i) = sin(p / theta^(2i/dim)),
/// PE(p, 2i + 1) = cos(p / theta^(2i/dim)).
at::Tensor add_sinusoids(const at::Tensor& x, const torch::TokenPositions& positions = {},
                         double theta = 10000.0);

/// T5's relative position buckets (Raffel et al. 2020, 2.1): weight [buckets, heads]. Half of the
/// buckets hold one distance each, the rest grow logarithmically up to `max_distance`. Without
/// `causal`, later keys have half of all buckets.
at::Tensor t5_bias(const at::Tensor& weight, const ScorePositions& positions, bool causal,
                   std::int64_t max_distance = 128);

/// -slopes[h] |i - j| (Press et al. 2022; symmetric for later keys).
at::Tensor alibi_bias(const at::Tensor& slopes, const ScorePositions& positions);
/// The paper's slopes, [heads] of float32 on the device of `like`: 2^(-8 (h+1) / heads) for a power
/// of two; otherwise those of the next lower power, then every other slope of twice that power.
at::Tensor alibi_slopes(std::int64_t heads, const at::Tensor& like);

/// KERPLE (Chi et al. 2022): "log" is -r1 log(1 + r2 |i - j|), "power" is -r1 |i - j|^r2; r1 and r2
/// are [heads].
at::Tensor kerple_bias(const at::Tensor& r1, const at::Tensor& r2, const ScorePositions& positions,
                       std::string_view kind);

/// Learned bias of each relative distance: table [distances, heads]. With `causal`, row n is
/// i - j = n; otherwise there are 2 m + 1 rows, and row n is i - j = n - m. Larger distances use
/// the outermost row.
at::Tensor distance_bias(const at::Tensor& table, const ScorePositions& positions, bool causal);

/// q_i . table[clip(j - i)] (Shaw et al. 2018, eq. 4): q [batch, heads, queries, head_dim], query i
/// of index `first` + i, against `keys` keys; table [2 m + 1, head_dim], row m for j = i. Memory of
/// queries x (queries + keys).
at::Tensor shaw_bias(const at::Tensor& q, const at::Tensor& table, const c10::SymInt& keys,
                     const c10::SymInt& first = 0);
/// sum_j weights_ij table[clip(j - i)] (its eq. 3): weights [batch, heads, queries, keys].
at::Tensor shaw_outputs(const at::Tensor& weights, const at::Tensor& table,
                        const c10::SymInt& first = 0);

/// (q_i + v) . W R_(i-j) + u . k_j (Dai et al. 2019, 3.3): W is `weight`, [heads head_dim,
/// model_dim], u and v are [heads, head_dim], R is add_sinusoids()'s.
at::Tensor transformer_xl_bias(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weight,
                               const at::Tensor& u, const at::Tensor& v,
                               const c10::SymInt& first = 0);

// ---- As modules ---------------------------------------------------------------------------------

struct EncodingOptions {
  /// "none", "learned", "sinusoidal", "t5", "alibi", "kerple_log", "kerple_power", "distance",
  /// "shaw", "nezha", "transformer_xl", "rope", "xpos" (a rope with growth), or several of them:
  /// "rope+alibi", "rope+distance".
  std::string name = "none";
  /// learned: parameter weight [max_positions, model_dim].
  std::int64_t model_dim = 0;
  std::int64_t max_positions = 512;
  /// t5: parameter weight [buckets, heads]; alibi; kerple: log_r1 [heads] and log_r2 or logit_r2
  /// [heads]; distance: parameter table [max_distance + 1 or 2 max_distance + 1, heads].
  std::int64_t heads = 0;
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  /// shaw: parameters keys and values [max_distance + 1 or 2 max_distance + 1, head_dim], nezha:
  /// the same as sinusoids; transformer_xl: position.weight [heads head_dim, model_dim], u
  /// and v [heads, head_dim]. 0: model_dim / heads.
  std::int64_t head_dim = 0;
  /// t5, distance, shaw, nezha: later keys are masked and need no parameters.
  bool causal = false;
  /// rope, xpos; learn as in RotaryEmbedding, kPerHead for `heads`.
  std::string rope{};
  torch::Learn learn = torch::Learn::kNothing;
};

std::shared_ptr<EncodingImpl> make_encoding(const EncodingOptions& options);
/// make_encoding({.name = "rope", .rope = text}).
std::shared_ptr<EncodingImpl> rope(std::string text);

}  // namespace rotary::transformer
