// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Configuration of a RoFormer: Hugging Face's config.json, and options of our own.
///
///   namespace rf = rotary::roformer;
///   rf::Config config = rf::read_config("roformer_chinese_base/config.json");
///   config.task = rf::Task::kSequenceClassification;
///   std::string json = rf::to_json(config);
///
/// Names are those of the file. Needs no PyTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "roformer/model/linear_config.h"

namespace rotary::internal {
class Json;
}

namespace rotary::roformer {

/// The task, which decides the head; `architectures` in the file.
enum class Task : std::uint8_t {
  kEncoder,                 // RoFormerModel: no head; its weights have no prefix
  kMaskedLm,                // RoFormerForMaskedLM
  kCausalLm,                // RoFormerForCausalLM
  kSequenceClassification,  // RoFormerForSequenceClassification: [CLS], two layers
  kTokenClassification,     // RoFormerForTokenClassification
  kQuestionAnswering,       // RoFormerForQuestionAnswering: first and last token of the answer
  kPairMatching,            // RoFormerForPairMatching: pooled, one layer (ours)
};

enum class Activation : std::uint8_t { kGelu, kGeluTanh, kRelu, kSilu };
/// kRms: x / sqrt(mean(x^2) + eps), without gain (RoFormerV2).
enum class NormType : std::uint8_t { kLayer, kRms };
enum class AttentionKind : std::uint8_t { kSoftmax, kLinear };
/// The vector of a sequence for kPairMatching: its first token, or the mean over all but padding.
enum class Pooling : std::uint8_t { kCls, kMean };

/// The defaults are junnyu/roformer_chinese_base.
struct Config {
  Task task = Task::kEncoder;
  std::int64_t vocab_size = 50000;
  /// 0: hidden_size. If different, a linear projection follows the embeddings.
  std::int64_t embedding_size = 0;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  /// RoPE itself has no limit; this is the length of the table that is written for transformers.
  std::int64_t max_position_embeddings = 1536;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::int64_t pad_token_id = 0;
  /// Rotates the values, too.
  bool rotary_value = false;
  /// Causal attention; always on for kCausalLm.
  bool is_decoder = false;
  bool tie_word_embeddings = true;
  /// Of the classifications and of kPairMatching; `id2label` in the file.
  std::int64_t num_labels = 2;

  // ---- Options of our own: not written if they have these defaults ------------------------------
  /// RoFormerV2: use_bias and mlm_transform false, norm_type "rms_norm", dropout_before_norm true.
  bool use_bias = true;
  NormType norm_type = NormType::kLayer;
  /// The layer between the encoder and the word embeddings of masked and causal LM.
  bool mlm_transform = true;
  /// Order of the dropout and the norm of the embeddings.
  bool dropout_before_norm = false;
  /// As in rotary::transformer::EncodingOptions: "rope", "none", "learned", "sinusoidal", "t5",
  /// "alibi", "kerple_log", "kerple_power", "distance", or several with + between them.
  std::string position_encoding = "rope";
  double rope_theta = 10000.0;
  AttentionKind attention_type = AttentionKind::kSoftmax;
  /// Of AttentionKind::kLinear.
  LinearConfig linear{};
  Pooling pair_pooling = Pooling::kMean;

  /// The file's other keys, as a JSON object, written back unchanged.
  std::string other = "{}";

  std::int64_t head_dim() const noexcept { return hidden_size / num_attention_heads; }
  std::int64_t embedding_dim() const noexcept {
    return embedding_size == 0 ? hidden_size : embedding_size;
  }
  bool causal() const noexcept { return is_decoder || task == Task::kCausalLm; }
};

/// "RoFormerForMaskedLM"
std::string_view architecture_of(Task task) noexcept;

/// Throws IoError that names `source`, the key, the rule and the value.
Config parse_config(std::string_view json, const std::string& source);
Config config_from_json(internal::Json object, const std::string& source);
Config read_config(const std::filesystem::path& path);
/// Throws std::invalid_argument for a config that parse_config() would refuse.
void check_config(const Config& config);

std::string to_json(const Config& config);

}  // namespace rotary::roformer
