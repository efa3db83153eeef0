// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a configuration must satisfy.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "roformer/model/config.h"
#include "roformer/model/rope_config.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using internal::quote;

std::string known_encodings() {
  return "rope, xpos, none, learned, sinusoidal, t5, alibi, kerple_log, kerple_power, distance, "
         "shaw, nezha or transformer_xl, or several with + between them, of the last three at most "
         "one and not with rope or xpos";
}

bool is_encoding(const std::string& text) {
  constexpr std::array<std::string_view, 13> kEncodings{
      "rope",         "xpos",     "none", "learned", "sinusoidal",    "t5", "alibi", "kerple_log",
      "kerple_power", "distance", "shaw", "nezha",   "transformer_xl"};
  std::istringstream parts(text);
  std::size_t count = 0;
  for (std::string part; std::getline(parts, part, '+'); ++count) {
    if (std::find(kEncodings.begin(), kEncodings.end(), part) == kEncodings.end()) return false;
  }
  const SplitEncoding split = split_encoding(text);
  const bool combines = split.of_layers.find('+') == std::string::npos &&
                        (split.of_layers.empty() || (text.find("rope") == std::string::npos &&
                                                     text.find("xpos") == std::string::npos));
  return count > 0 && text.back() != '+' && combines;
}

template <typename T>
[[noreturn]] void fail(std::string_view key, std::string_view rule, const T& got) {
  std::ostringstream text;
  text << key << " must be " << rule << ", got " << got;
  throw std::invalid_argument(text.str());
}

void check_sizes(const Config& c) {
  const std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes = {
      {"vocab_size", c.vocab_size},
      {"embedding_size", c.embedding_dim()},
      {"hidden_size", c.hidden_size},
      {"num_hidden_layers", c.num_hidden_layers},
      {"num_attention_heads", c.num_attention_heads},
      {"intermediate_size", c.intermediate_size},
      {"type_vocab_size", c.type_vocab_size}};
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
  for (const auto& [name, value] : sizes) {
    if (value < 1 || value > kMaxSize) fail(name, "1 to 2^31", value);
  }
  // A checkpoint has a table of them for transformers.
  if (c.max_position_embeddings < 1 || c.max_position_embeddings > 1 << 20) {
    fail("max_position_embeddings", "1 to 2^20", c.max_position_embeddings);
  }
  // config.json has a name for each.
  if (c.num_labels < 1 || c.num_labels > 1 << 16) fail("num_labels", "1 to 2^16", c.num_labels);
  if (c.num_hidden_layers > 10000) fail("num_hidden_layers", "at most 10000", c.num_hidden_layers);
  if (c.hidden_size % c.num_attention_heads != 0) {
    fail("hidden_size",
         "a multiple of num_attention_heads, " + std::to_string(c.num_attention_heads),
         c.hidden_size);
  }
  if (rotates(c) && c.head_dim() % 2 != 0) {
    fail("hidden_size / num_attention_heads", "even for RoPE", c.head_dim());
  }
  if (c.pad_token_id < 0 || c.pad_token_id >= c.vocab_size) {
    fail("pad_token_id", "a token of the vocabulary", c.pad_token_id);
  }
}

/// What transformers' BERT has no key for.
void check_bert(const Config& c) {
  if (c.position_encoding != "learned") {
    fail("position_encoding", "\"learned\" for model_type \"bert\"", quote(c.position_encoding));
  }
  if (c.embedding_dim() != c.hidden_size) {
    fail("embedding_size", "hidden_size for model_type \"bert\"", c.embedding_size);
  }
  if (c.rotary_value) fail("rotary_value", "false for model_type \"bert\"", "true");
  if (!c.use_bias || c.norm_type != NormType::kLayer || !c.mlm_transform || c.dropout_before_norm ||
      c.scale_embedding || c.qk_norm != QkNorm::kNone ||
      c.attention_type != AttentionKind::kSoftmax) {
    fail("model_type",
         "\"roformer\" for use_bias, norm_type, mlm_transform, dropout_before_norm, "
         "scale_embedding, qk_norm and attention_type other than their defaults",
         "\"bert\"");
  }
}

/// A layer's own rotation has the same frequencies for queries and keys, and for all texts.
void check_own_rotation(const Config& c) {
  const LayerRopes ropes = layer_ropes(c);
  if (ropes.depend_on_context() && c.rope_context == 0) {
    fail("rope_context", "set for rope_learn, position_steps and rotary_output with this rope_type",
         0);
  }
  for (const ModelRope& rope : ropes.ropes) {
    if (std::holds_alternative<Xpos>(rope.recipe.scaling)) {
      fail("rope_learn, position_steps and rotary_output", "unset for xPos", "xPos");
    }
  }
}

/// Options of a layer's own rotation.
void check_rotation(const Config& c) {
  const bool fits = rotates(c) && c.attention_type == AttentionKind::kSoftmax;
  const std::string_view rule = "for RoPE and softmax attention";
  if (c.rope_learn != RopeLearn::kNothing && !fits) {
    fail("rope_learn", std::string("none, except ").append(rule), name_of(c.rope_learn));
  }
  if (c.position_steps != PositionStepsOf::kNone && !fits) {
    fail("position_steps", std::string("none, except ").append(rule),
         c.position_steps == PositionStepsOf::kHead ? "head" : "token");
  }
  if (c.rotary_output && !fits) {
    fail("rotary_output", std::string("false, except ").append(rule), "true");
  }
  if (c.position_steps == PositionStepsOf::kHead && c.rope_learn == RopeLearn::kPerHead) {
    fail("position_steps", "none or token with rope_learn per_head", "head");
  }
  if (c.rope_learn != RopeLearn::kNothing || c.position_steps != PositionStepsOf::kNone ||
      c.rotary_output) {
    check_own_rotation(c);
  }
  if (!(c.rope_rho >= 0.0 && c.rope_rho <= 10.0)) fail("rope_rho", "from 0 to 10", c.rope_rho);
}

}  // namespace

SplitEncoding split_encoding(const std::string& position_encoding) {
  SplitEncoding split;
  std::istringstream parts(position_encoding);
  for (std::string part; std::getline(parts, part, '+');) {
    const bool of_layers = part == "shaw" || part == "nezha" || part == "transformer_xl";
    std::string& to = of_layers ? split.of_layers : split.shared;
    to += (to.empty() ? "" : "+") + part;
  }
  if (split.shared.empty()) split.shared = "none";
  return split;
}

void check_config(const Config& c) {
  check_sizes(c);
  if (c.family == Family::kBert) check_bert(c);
  for (const auto& [name, value] :
       {std::pair("hidden_dropout_prob", c.hidden_dropout_prob),
        std::pair("attention_probs_dropout_prob", c.attention_probs_dropout_prob)}) {
    if (!(value >= 0.0 && value < 1.0)) fail(name, "at least 0 and below 1", value);
  }
  if (!(c.layer_norm_eps > 0.0 && c.layer_norm_eps < 1.0)) {
    fail("layer_norm_eps", "above 0 and below 1", c.layer_norm_eps);
  }
  if (!(c.initializer_range >= 0.0)) fail("initializer_range", "at least 0", c.initializer_range);
  if (!(c.rope_theta > 0.0)) fail("rope_theta", "above 0", c.rope_theta);
  if (!is_encoding(c.position_encoding)) {
    fail("position_encoding", known_encodings(), quote(c.position_encoding));
  }
  if (c.attention_type == AttentionKind::kLinear) {
    const std::string& e = c.position_encoding;
    if (e != "rope" && e != "none" && e != "learned" && e != "sinusoidal") {
      fail("position_encoding", "rope, none, learned or sinusoidal for linear attention", e);
    }
    if (c.rotary_value) fail("rotary_value", "false for linear attention", "true");
  }
  check_ropes(c);
  check_rotation(c);
  check_linear_config(c.linear, c.attention_type == AttentionKind::kLinear, c.head_dim());
}

}  // namespace rotary::roformer
