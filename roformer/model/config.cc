// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/config.h"

#include <array>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "io/json_file.h"
#include "json/json.h"
#include "roformer/model/rope_config.h"
#include "rotary/error.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using internal::Json;
using internal::quote;

template <typename T, std::size_t kCount>
using Names = std::array<std::pair<std::string_view, T>, kCount>;

constexpr Names<Task, 7> kTasks{
    {{"RoFormerModel", Task::kEncoder},
     {"RoFormerForMaskedLM", Task::kMaskedLm},
     {"RoFormerForCausalLM", Task::kCausalLm},
     {"RoFormerForSequenceClassification", Task::kSequenceClassification},
     {"RoFormerForTokenClassification", Task::kTokenClassification},
     {"RoFormerForQuestionAnswering", Task::kQuestionAnswering},
     {"RoFormerForPairMatching", Task::kPairMatching}}};

constexpr Names<Task, 8> kBertTasks{
    {{"BertModel", Task::kEncoder},
     {"BertForMaskedLM", Task::kMaskedLm},
     {"BertForPreTraining", Task::kMaskedLm},
     {"BertLMHeadModel", Task::kCausalLm},
     {"BertForSequenceClassification", Task::kSequenceClassification},
     {"BertForTokenClassification", Task::kTokenClassification},
     {"BertForQuestionAnswering", Task::kQuestionAnswering},
     {"BertForPairMatching", Task::kPairMatching}}};

constexpr Names<Activation, 6> kActivations{{{"gelu", Activation::kGelu},
                                             {"gelu_new", Activation::kGeluTanh},
                                             {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                             {"relu", Activation::kRelu},
                                             {"silu", Activation::kSilu},
                                             {"swish", Activation::kSilu}}};
constexpr Names<NormType, 2> kNorms{
    {{"layer_norm", NormType::kLayer}, {"rms_norm", NormType::kRms}}};
constexpr Names<AttentionKind, 2> kKinds{
    {{"softmax", AttentionKind::kSoftmax}, {"linear", AttentionKind::kLinear}}};
constexpr Names<QkNorm, 3> kQkNorms{
    {{"none", QkNorm::kNone}, {"layer", QkNorm::kLayer}, {"rms", QkNorm::kRms}}};
constexpr Names<RopeLearn, 5> kLearns{{{"none", RopeLearn::kNothing},
                                       {"gain", RopeLearn::kGain},
                                       {"frequencies", RopeLearn::kFrequencies},
                                       {"per_head", RopeLearn::kPerHead},
                                       {"receptive_field", RopeLearn::kReceptiveField}}};
constexpr Names<PositionStepsOf, 3> kSteps{{{"none", PositionStepsOf::kNone},
                                            {"token", PositionStepsOf::kToken},
                                            {"head", PositionStepsOf::kHead}}};
constexpr Names<Pooling, 2> kPoolings{{{"cls", Pooling::kCls}, {"mean", Pooling::kMean}}};

template <typename T, std::size_t kCount>
std::string_view name_of(const Names<T, kCount>& names, T value) {
  for (const auto& [name, known] : names) {
    if (known == value) return name;
  }
  return "";
}

/// Reads keys and removes them from the object; those left at the end are kept as `other`.
class Reader {
 public:
  Reader(Json json, std::string source) : json_(std::move(json)), source_(std::move(source)) {}

  [[noreturn]] void refuse(std::string_view key, std::string_view rule, const Json& got) const {
    std::ostringstream text;
    text << key << " must be " << rule << ", got " << got.excerpt();
    throw IoError(source_, IoError::kNoOffset, text.str());
  }

  void read(std::string_view key, std::int64_t& field) {
    const Json value = take(key);
    if (value.is_null()) return;
    if (!value.is_int64()) refuse(key, "a whole number", value);
    field = value.as_int64();
  }
  void read(std::string_view key, double& field) {
    const Json value = take(key);
    if (value.is_null()) return;
    if (!value.is_number()) refuse(key, "a number", value);
    field = value.as_double();
  }
  void read(std::string_view key, bool& field) {
    const Json value = take(key);
    if (value.is_null()) return;
    if (!value.is_boolean()) refuse(key, "true or false", value);
    field = value.as_bool();
  }
  void read(std::string_view key, std::string& field) {
    const Json value = take(key);
    if (value.is_null()) return;
    if (!value.is_string()) refuse(key, "a text", value);
    field = value.as_string();
  }
  void read(std::string_view key, std::vector<std::int64_t>& field) {
    const Json list = take_list(key);
    for (const Json& item : list.elements()) {
      if (!item.is_int64()) refuse(key, "a list of whole numbers", list);
      field.push_back(item.as_int64());
    }
  }
  void read(std::string_view key, std::vector<double>& field) {
    const Json list = take_list(key);
    for (const Json& item : list.elements()) {
      if (!item.is_number()) refuse(key, "a list of numbers", list);
      field.push_back(item.as_double());
    }
  }
  /// An object, as text; empty and null ones are skipped.
  void read_object(std::string_view key, std::string& field) {
    const Json value = take(key);
    if (value.is_null()) return;
    if (!value.is_object()) refuse(key, "an object", value);
    if (!value.empty()) field = value.dump();
  }
  template <typename T, std::size_t kCount>
  void read(std::string_view key, T& field, const Names<T, kCount>& names) {
    const Json value = take(key);
    if (value.is_null()) return;
    std::string known;
    for (const auto& [name, meaning] : names) {
      if (value == name) {
        field = meaning;
        return;
      }
      known.append(known.empty() ? "" : ", ").append(name);
    }
    refuse(key, "one of " + known, value);
  }

  /// Null where the key is missing.
  Json take(std::string_view key) { return json_.take(key); }
  const Json& rest() const { return json_; }

 private:
  Json take_list(std::string_view key) {
    Json value = take(key);
    if (value.is_null()) return Json::array();
    if (!value.is_array()) refuse(key, "a list with an entry for each layer", value);
    return value;
  }

  Json json_;
  std::string source_;
};

template <std::size_t kCount>
void read_task(Reader& reader, Config& config, const Names<Task, kCount>& tasks) {
  const Json names = reader.take("architectures");
  if (names.is_null()) return;
  if (!names.is_array() || names.empty() || !names.elements()[0].is_string()) {
    reader.refuse("architectures", "a list of one name", names);
  }
  std::string known;
  for (const auto& [name, task] : tasks) {
    if (names.elements()[0] == name) {
      config.task = task;
      return;
    }
    known.append(known.empty() ? "" : ", ").append(name);
  }
  reader.refuse("architectures", "one of " + known, names.elements()[0]);
}

/// Defaults of Hugging Face's BertConfig where they are others than RoFormer's.
void read_bert(Reader& reader, Config& config) {
  std::string encoding = "absolute";
  reader.read("position_embedding_type", encoding);
  if (encoding != "absolute") reader.refuse("position_embedding_type", "\"absolute\"", encoding);
  config.family = Family::kBert;
  config.vocab_size = 30522;
  config.max_position_embeddings = 512;
  config.position_encoding = "learned";
  read_task(reader, config, kBertTasks);
}

/// id2label stays in the rest: its texts are the user's.
void read_labels(Reader& reader, Config& config) {
  reader.read("num_labels", config.num_labels);
  const Json* labels = reader.rest().find("id2label");
  if (labels == nullptr || labels->is_null()) return;
  if (!labels->is_object() || labels->empty()) {
    reader.refuse("id2label", "an object with a text for each class", *labels);
  }
  config.num_labels = static_cast<std::int64_t>(labels->size());
}

}  // namespace

std::string_view name_of(RopeLearn learn) noexcept { return name_of(kLearns, learn); }

RopeLearn rope_learn_of(std::string_view name) {
  for (const auto& [known, learn] : kLearns) {
    if (known == name) return learn;
  }
  throw std::invalid_argument(
      "rope_learn must be none, gain, frequencies, per_head or receptive_field, got " +
      quote(name));
}

std::string_view architecture_of(Task task) noexcept {
  for (const auto& [name, known] : kTasks) {
    if (known == task) return name;
  }
  return "";
}

std::string_view architecture_of(const Config& config) noexcept {
  return config.family == Family::kBert ? name_of(kBertTasks, config.task)
                                        : architecture_of(config.task);
}

Config config_from_json(Json object, const std::string& source) {
  if (!object.is_object()) throw IoError(source, IoError::kNoOffset, "not a JSON object");
  const LinearConfig linear = take_linear_config(object, source);
  Reader reader(std::move(object), source);
  std::string type = "roformer";
  reader.read("model_type", type);
  if (type != "roformer" && type != "bert") {
    reader.refuse("model_type", "\"roformer\" or \"bert\"", type);
  }
  bool cross_attention = false;
  reader.read("add_cross_attention", cross_attention);
  if (cross_attention) reader.refuse("add_cross_attention", "false", true);

  Config c;
  c.linear = linear;
  if (type == "bert") {
    read_bert(reader, c);
  } else {
    read_task(reader, c, kTasks);
  }
  read_labels(reader, c);
  reader.read("vocab_size", c.vocab_size);
  reader.read("embedding_size", c.embedding_size);
  reader.read("hidden_size", c.hidden_size);
  reader.read("num_hidden_layers", c.num_hidden_layers);
  reader.read("num_attention_heads", c.num_attention_heads);
  reader.read("intermediate_size", c.intermediate_size);
  reader.read("hidden_act", c.hidden_act, kActivations);
  reader.read("hidden_dropout_prob", c.hidden_dropout_prob);
  reader.read("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  reader.read("max_position_embeddings", c.max_position_embeddings);
  reader.read("type_vocab_size", c.type_vocab_size);
  reader.read("initializer_range", c.initializer_range);
  reader.read("layer_norm_eps", c.layer_norm_eps);
  reader.read("pad_token_id", c.pad_token_id);
  reader.read("rotary_value", c.rotary_value);
  reader.read("is_decoder", c.is_decoder);
  reader.read("tie_word_embeddings", c.tie_word_embeddings);
  reader.read("use_bias", c.use_bias);
  reader.read("norm_type", c.norm_type, kNorms);
  reader.read("mlm_transform", c.mlm_transform);
  reader.read("dropout_before_norm", c.dropout_before_norm);
  reader.read("scale_embedding", c.scale_embedding);
  reader.read("position_encoding", c.position_encoding);
  reader.read("rope_theta", c.rope_theta);
  reader.read_object("rope_parameters", c.rope_parameters);
  reader.read_object("rope_scaling", c.rope_parameters);  // has precedence, as in transformers
  reader.read("partial_rotary_factor", c.partial_rotary_factor);
  reader.read("no_rope_layers", c.no_rope_layers);
  reader.read("layer_rope_theta", c.layer_rope_theta);
  reader.read("rope_context", c.rope_context);
  reader.read("qk_norm", c.qk_norm, kQkNorms);
  reader.read("attention_type", c.attention_type, kKinds);
  reader.read("pair_pooling", c.pair_pooling, kPoolings);
  reader.read("rope_learn", c.rope_learn, kLearns);
  reader.read("rope_rho", c.rope_rho);
  reader.read("position_steps", c.position_steps, kSteps);
  reader.read("rotary_output", c.rotary_output);
  c.other = reader.rest().dump();
  try {
    check_config(c);
  } catch (const std::invalid_argument& error) {
    throw IoError(source, IoError::kNoOffset, error.what());
  }
  return c;
}

Config parse_config(std::string_view json, const std::string& source) {
  return config_from_json(internal::parse_json(json, source), source);
}

Config read_config(const std::filesystem::path& path) {
  return config_from_json(internal::read_json_file(path), path.string());
}

std::string to_json(const Config& c) {
  Json json = internal::parse_json(c.other, "config");
  const bool is_bert = c.family == Family::kBert;
  json["model_type"] = is_bert ? "bert" : "roformer";
  json["architectures"] = Json(Json::Array{architecture_of(c)});
  json["add_cross_attention"] = false;
  json["vocab_size"] = c.vocab_size;
  if (!is_bert) json["embedding_size"] = c.embedding_dim();
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.intermediate_size;
  json["hidden_act"] = name_of(kActivations, c.hidden_act);
  json["hidden_dropout_prob"] = c.hidden_dropout_prob;
  json["attention_probs_dropout_prob"] = c.attention_probs_dropout_prob;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["type_vocab_size"] = c.type_vocab_size;
  json["initializer_range"] = c.initializer_range;
  json["layer_norm_eps"] = c.layer_norm_eps;
  json["pad_token_id"] = c.pad_token_id;
  if (!is_bert) json["rotary_value"] = c.rotary_value;
  json["is_decoder"] = c.causal();
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  const Json* labels = json.find("id2label");
  const bool named = labels != nullptr && labels->is_object() &&
                     static_cast<std::int64_t>(labels->size()) == c.num_labels;
  if (!named) {
    Json::Object names;
    Json::Object indices;
    for (std::int64_t i = 0; i < c.num_labels; ++i) {
      const std::string name = "LABEL_" + std::to_string(i);
      names.push_back({std::to_string(i), name});
      indices.push_back({name, i});
    }
    json["id2label"] = Json::object(std::move(names));
    json["label2id"] = Json::object(std::move(indices));
  }
  const Config plain;
  if (!c.use_bias) json["use_bias"] = false;
  if (c.norm_type != plain.norm_type) json["norm_type"] = name_of(kNorms, c.norm_type);
  if (!c.mlm_transform) json["mlm_transform"] = false;
  if (c.dropout_before_norm) json["dropout_before_norm"] = true;
  if (c.scale_embedding) json["scale_embedding"] = true;
  if (!is_bert && c.position_encoding != plain.position_encoding) {
    json["position_encoding"] = c.position_encoding;
  }
  if (c.rope_theta != plain.rope_theta) json["rope_theta"] = c.rope_theta;
  if (!c.rope_parameters.empty()) {
    json["rope_parameters"] = internal::parse_json(c.rope_parameters, "rope_parameters");
  }
  if (c.partial_rotary_factor != plain.partial_rotary_factor) {
    json["partial_rotary_factor"] = c.partial_rotary_factor;
  }
  if (!c.no_rope_layers.empty()) json["no_rope_layers"] = c.no_rope_layers;
  if (!c.layer_rope_theta.empty()) json["layer_rope_theta"] = c.layer_rope_theta;
  if (c.rope_context != 0) json["rope_context"] = c.rope_context;
  if (c.qk_norm != plain.qk_norm) json["qk_norm"] = name_of(kQkNorms, c.qk_norm);
  if (c.attention_type != plain.attention_type) {
    json["attention_type"] = name_of(kKinds, c.attention_type);
  }
  if (c.rope_learn != plain.rope_learn) json["rope_learn"] = name_of(kLearns, c.rope_learn);
  if (c.rope_rho != plain.rope_rho) json["rope_rho"] = c.rope_rho;
  if (c.position_steps != plain.position_steps) {
    json["position_steps"] = name_of(kSteps, c.position_steps);
  }
  if (c.rotary_output) json["rotary_output"] = true;
  add_linear_config(c.linear, json);
  if (c.task == Task::kPairMatching) json["pair_pooling"] = name_of(kPoolings, c.pair_pooling);
  json.sort();
  return json.dump_lines();
}

}  // namespace rotary::roformer
