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
#include <vector>

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

/// `model_type` in the file. kBert: BERT with its learned position table, as Hugging Face has it:
/// the same layers under other names, and a classification head of its own.
enum class Family : std::uint8_t { kRoFormer, kBert };

enum class Activation : std::uint8_t { kGelu, kGeluTanh, kRelu, kSilu };
/// kRms: x / sqrt(mean(x^2) + eps), without gain (RoFormerV2).
enum class NormType : std::uint8_t { kLayer, kRms };
/// Norm of each head of the queries and keys, with a gain, before the rotation.
enum class QkNorm : std::uint8_t { kNone, kLayer, kRms };
enum class AttentionKind : std::uint8_t { kSoftmax, kLinear };
/// What a layer learns of its rotation, relative to the rope's frequencies f; `rope_learn`.
enum class RopeLearn : std::uint8_t {
  kNothing,         // "none"
  kGain,            // "gain": f exp(a) for each pair
  kFrequencies,     // "frequencies": f + d for each pair and axis
  kPerHead,         // "per_head": f + d for each head, pair and axis (RoPE-Mixed)
  kReceptiveField,  // "receptive_field": alpha / 10000^rope_rho + (1 - alpha) f
};
/// Whether positions are learned functions of the tokens; `position_steps`.
enum class PositionStepsOf : std::uint8_t { kNone, kToken, kHead };
/// The vector of a sequence for kPairMatching: its first token, or the mean over all but padding.
enum class Pooling : std::uint8_t { kCls, kMean };

/// The defaults are junnyu/roformer_chinese_base.
struct Config {
  Family family = Family::kRoFormer;
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
  /// Embeddings of words and types are multiplied by sqrt(embedding_dim) before positions are added
  /// to them (Vaswani et al. 2017, 3.4), as BART's key of this name does.
  bool scale_embedding = false;
  /// As in rotary::transformer::EncodingOptions: "rope", "xpos", "none", "learned", "sinusoidal",
  /// "t5", "alibi", "kerple_log", "kerple_power", "distance", or several with + between them; of
  /// "shaw", "nezha" and "transformer_xl", which each layer has its own of, at most one, without a
  /// rotation.
  std::string position_encoding = "rope";
  // The rotation: rope_config.h.
  double rope_theta = 10000.0;
  /// A JSON object with rope_type and its keys (rope_scaling in older files); empty: plain RoPE.
  std::string rope_parameters{};
  double partial_rotary_factor = 1.0;
  /// For each layer 1, or 0 if it does not rotate (Llama 4's key). Empty: all layers rotate.
  std::vector<std::int64_t> no_rope_layers{};
  /// theta of each layer, 0 for none. Empty: rope_theta.
  std::vector<double> layer_rope_theta{};
  /// Context in use of recipes that depend on it, for all texts; 0: the length of each text.
  std::int64_t rope_context = 0;
  QkNorm qk_norm = QkNorm::kNone;
  AttentionKind attention_type = AttentionKind::kSoftmax;
  /// Of AttentionKind::kLinear.
  LinearConfig linear{};
  Pooling pair_pooling = Pooling::kMean;
  RopeLearn rope_learn = RopeLearn::kNothing;
  double rope_rho = 1.0;
  PositionStepsOf position_steps = PositionStepsOf::kNone;
  /// RoPER: values are rotated as keys are, and outputs of attention back by the query's position.
  bool rotary_output = false;

  /// The file's other keys, as a JSON object, written back unchanged.
  std::string other = "{}";

  std::int64_t head_dim() const noexcept { return hidden_size / num_attention_heads; }
  std::int64_t embedding_dim() const noexcept {
    return embedding_size == 0 ? hidden_size : embedding_size;
  }
  bool causal() const noexcept { return is_decoder || task == Task::kCausalLm; }
};

/// The parts of a position_encoding: of the model, "none" without any, and of each layer, empty
/// without any.
struct SplitEncoding {
  std::string shared{};
  std::string of_layers{};
};
SplitEncoding split_encoding(const std::string& position_encoding);

/// "gain": the name of what is learned.
std::string_view name_of(RopeLearn learn) noexcept;
/// Throws std::invalid_argument for another name.
RopeLearn rope_learn_of(std::string_view name);

/// "RoFormerForMaskedLM"
std::string_view architecture_of(Task task) noexcept;
/// The same for the config's family: "BertForMaskedLM".
std::string_view architecture_of(const Config& config) noexcept;

/// Throws IoError that names `source`, the key, the rule and the value.
Config parse_config(std::string_view json, const std::string& source);
Config config_from_json(internal::Json object, const std::string& source);
Config read_config(const std::filesystem::path& path);
/// Throws std::invalid_argument for a config that parse_config() would refuse.
void check_config(const Config& config);

std::string to_json(const Config& config);

}  // namespace rotary::roformer
