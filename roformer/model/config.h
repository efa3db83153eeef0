// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What a RoFormer is made of: the numbers of Hugging Face's config.json, and switches of our own.
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

namespace rotary::roformer {

/// What stands on the encoder; `architectures` in the file.
enum class Task : std::uint8_t {
  kEncoder,                 // RoFormerModel: nothing; its weights have no prefix
  kMaskedLm,                // RoFormerForMaskedLM
  kCausalLm,                // RoFormerForCausalLM
  kSequenceClassification,  // RoFormerForSequenceClassification: [CLS], two layers
  kTokenClassification,     // RoFormerForTokenClassification
  kQuestionAnswering,       // RoFormerForQuestionAnswering: where the answer begins and ends
  kPairMatching,            // RoFormerForPairMatching: pooled, one layer (ours)
};

enum class Activation : std::uint8_t { kGelu, kGeluTanh, kRelu, kSilu };
/// kRms: x / sqrt(mean(x^2) + eps), without gain (RoFormerV2).
enum class NormType : std::uint8_t { kLayer, kRms };
enum class AttentionKind : std::uint8_t { kSoftmax, kLinear };
/// What of a sequence kPairMatching looks at: its first token, or the mean over what is no padding.
enum class Pooling : std::uint8_t { kCls, kMean };

/// The defaults are junnyu/roformer_chinese_base.
struct Config {
  Task task = Task::kEncoder;
  std::int64_t vocab_size = 50000;
  /// 0: hidden_size. Where it is another number, a linear map leads from one to the other.
  std::int64_t embedding_size = 0;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::kGelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  /// RoPE knows no such limit; it is the length of the table that is written for transformers.
  std::int64_t max_position_embeddings = 1536;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::int64_t pad_token_id = 0;
  /// Values turn, too.
  bool rotary_value = false;
  /// A token sees no later one. Always so for kCausalLm.
  bool is_decoder = false;
  bool tie_word_embeddings = true;
  /// Of the classifications and of kPairMatching; `id2label` in the file.
  std::int64_t num_labels = 2;

  // ---- Switches of our own: not written where they have these values ----------------------------
  /// RoFormerV2: use_bias and mlm_transform false, norm_type "rms_norm", dropout_before_norm true.
  bool use_bias = true;
  NormType norm_type = NormType::kLayer;
  /// The layer between the encoder and the word embeddings of masked and causal LM.
  bool mlm_transform = true;
  /// Of the embeddings' dropout and norm.
  bool dropout_before_norm = false;
  /// As in rotary::torch::EncodingOptions: "rope", "none", "learned", "sinusoidal", "t5", "alibi",
  /// "kerple_log", "kerple_power", "distance", or several with + between them.
  std::string position_encoding = "rope";
  double rope_theta = 10000.0;
  AttentionKind attention_type = AttentionKind::kSoftmax;
  Pooling pair_pooling = Pooling::kMean;

  /// The file's other keys, as a JSON object: written again as they were.
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
Config read_config(const std::filesystem::path& path);
/// Throws std::invalid_argument for a config that parse_config() would refuse.
void check_config(const Config& config);

std::string to_json(const Config& config);

}  // namespace rotary::roformer
