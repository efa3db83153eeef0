// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/config.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>

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
      c.qk_norm != QkNorm::kNone || c.attention_type != AttentionKind::kSoftmax) {
    fail("model_type",
         "\"roformer\" for use_bias, norm_type, mlm_transform, "
         "dropout_before_norm, qk_norm and attention_type other than their defaults",
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
    fail("rope_learn", std::string("none, except ").append(rule), name_of(kLearns, c.rope_learn));
  }
  if (c.position_steps != PositionStepsOf::kNone && !fits) {
    fail("position_steps", std::string("none, except ").append(rule),
         name_of(kSteps, c.position_steps));
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

std::string_view name_of(RopeLearn learn) noexcept { return name_of(kLearns, learn); }

RopeLearn rope_learn_of(std::string_view name) {
  for (const auto& [known, learn] : kLearns) {
    if (known == name) return learn;
  }
  fail("rope_learn", "none, gain, frequencies, per_head or receptive_field", quote(name));
}

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
