// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// How attention knows where tokens stand: RoPE among its peers, behind one interface.
///
///   auto encoding =
///       rotary::torch::make_encoding({.name = "rope+alibi", .heads = 8, .rope = text});
///   x = encoding->embed(x);                                    // encodings of the input
///   rotary::torch::Attention attention({.model_dim = 512, .heads = 8, .encoding = encoding});
///
/// An encoding acts on the input (added to the vectors of tokens), on queries and keys (turns
/// them), on the score (a bias), or on several of these; what it does not act on it leaves alone.
/// Each is as its paper has it; docs/attention.md has the formulas. rotary.torch.encodings is the
/// same in Python, with the same names of parameters.
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

namespace rotary::torch {

/// Where an encoding acts.
struct EncodingSites {
  bool input = false;
  bool query_key = false;
  bool score = false;
};

/// The queries and keys of a score: `queries` of them from `first` on, and `keys` from 0 on; or at
/// positions that are tensors, [tokens] or [batch, tokens].
struct ScorePlaces {
  c10::SymInt queries = 0;
  c10::SymInt keys = 0;
  c10::SymInt first = 0;
  std::optional<at::Tensor> query_positions{};
  std::optional<at::Tensor> key_positions{};
};

class EncodingImpl : public ::torch::nn::Module {
 public:
  using ::torch::nn::Module::Module;

  virtual EncodingSites sites() const = 0;

  /// x [.., tokens, model_dim] with the positions of its tokens in it; token_dim is of no account.
  virtual at::Tensor embed(const at::Tensor& x, const Where& where = {});

  /// Queries, then keys (or what turns as keys do), turned: in one launch where all stand at the
  /// same positions, `at`. `keys_at` where keys stand elsewhere.
  virtual std::vector<at::Tensor> turn(at::TensorList queries, at::TensorList keys, const Where& at,
                                       const Where* keys_at = nullptr);

  /// [heads, queries, keys] where `like` is, with a batch in front where positions have one; or
  /// nothing.
  virtual std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& like);

  /// What scores are multiplied by on top of 1 / sqrt(head_dim).
  virtual double softmax_scale() const { return 1.0; }
};

// ---- As functions: torch.ops.rotary.* ----------------------------------------------------------

/// Where tokens stand, as numbers of one axis: [tokens] or [batch, tokens], on the device of
/// `like`; int64, or real where positions are.
at::Tensor token_positions(const Where& where, const c10::SymInt& tokens, const at::Tensor& like);

/// x + PE, computed in float64 (Vaswani et al. 2017, 3.5): PE(p, 2i) = sin(p / theta^(2i/dim)),
/// PE(p, 2i + 1) = cos(p / theta^(2i/dim)).
at::Tensor add_sinusoids(const at::Tensor& x, const Where& where = {}, double theta = 10000.0);

/// T5's buckets of distances (Raffel et al. 2020, 2.1): weight [buckets, heads]. Half of the
/// buckets hold one distance each, the rest grow logarithmically up to `max_distance`; where not
/// `causal`, keys that follow have half of all buckets.
at::Tensor t5_bias(const at::Tensor& weight, const ScorePlaces& places, bool causal,
                   std::int64_t max_distance = 128);

/// -slopes[h] |i - j| (Press et al. 2022; for keys that follow, its symmetric form).
at::Tensor alibi_bias(const at::Tensor& slopes, const ScorePlaces& places);
/// The paper's slopes, [heads], float32, where `like` is: 2^(-8 (h+1) / heads) for a power of two;
/// else those of the power below, and every other one of twice that power.
at::Tensor alibi_slopes(std::int64_t heads, const at::Tensor& like);

/// KERPLE (Chi et al. 2022): "log" is -r1 log(1 + r2 |i - j|), "power" is -r1 |i - j|^r2; r1 and r2
/// are [heads].
at::Tensor kerple_bias(const at::Tensor& r1, const at::Tensor& r2, const ScorePlaces& places,
                       std::string_view kind);

/// b_(i-j): table [distances, heads]. Where `causal`, row n is i - j = n; else there are 2 m + 1
/// rows, and row n is i - j = n - m. What is farther away has the outermost row.
at::Tensor distance_bias(const at::Tensor& table, const ScorePlaces& places, bool causal);

// ---- As modules ---------------------------------------------------------------------------------

struct EncodingOptions {
  /// "none", "learned", "sinusoidal", "t5", "alibi", "kerple_log", "kerple_power", "distance",
  /// "rope", "xpos" (a rope that grows), or several of them: "rope+alibi", "rope+distance".
  std::string name = "none";
  /// learned: parameter weight [max_positions, model_dim].
  std::int64_t model_dim = 0;
  std::int64_t max_positions = 512;
  /// t5: parameter weight [buckets, heads]; alibi; kerple: log_r1 [heads] and log_r2 or logit_r2
  /// [heads]; distance: parameter table [max_distance + 1 or 2 max_distance + 1, heads].
  std::int64_t heads = 0;
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  /// t5, distance: keys that follow are never seen and need no parameters.
  bool causal = false;
  /// rope, xpos; learn as in RotaryEmbedding.
  std::string rope{};
  Learn learn = Learn::kNothing;
};

std::shared_ptr<EncodingImpl> make_encoding(const EncodingOptions& options);
/// make_encoding({.name = "rope", .rope = text}).
std::shared_ptr<EncodingImpl> rope(std::string text);

}  // namespace rotary::torch
