// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From files to a model.
#include <ATen/Functions.h>

#include <set>
#include <sstream>
#include <utility>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/names.h"
#include "rotary/error.h"
#include "rotary/io.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using internal::quote;

/// Before memory is allocated for a model: a few bytes of a config must not cost more than the
/// weights that belong to it.
void check_number_of_weights(const Config& c, const TensorMap& tensors, const fs::path& source) {
  const auto hidden = static_cast<double>(c.hidden_size);
  const auto rows = static_cast<double>(c.vocab_size) + static_cast<double>(c.type_vocab_size) +
                    (c.position_encoding.find("learned") == std::string::npos
                         ? 0.0
                         : static_cast<double>(c.max_position_embeddings));
  const double layer = 4 * hidden * hidden + 2 * hidden * static_cast<double>(c.intermediate_size);
  const double wanted = rows * static_cast<double>(c.embedding_dim()) +
                        static_cast<double>(c.num_hidden_layers) * layer;
  double present = 0.0;
  for (const auto& [name, tensor] : tensors) present += static_cast<double>(tensor.numel());
  if (wanted <= present) return;
  std::ostringstream text;
  text << "has " << present << " weights; the config (vocab_size " << c.vocab_size
       << ", hidden_size " << c.hidden_size << ", intermediate_size " << c.intermediate_size
       << ", num_hidden_layers " << c.num_hidden_layers << ") needs at least " << wanted;
  fail_file(source, text.str());
}

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// Whether the tensor is a second copy of a parameter.
bool is_tied(const std::string& name, const at::Tensor& tensor, ModelImpl& model) {
  const auto parameters = model.named_parameters();
  const at::Tensor* twin = name == kDecoder       ? parameters.find(std::string(kWordEmbeddings))
                           : name == kDecoderBias ? parameters.find(std::string(kPredictionsBias))
                                                  : nullptr;
  return twin != nullptr && twin->sizes() == tensor.sizes() &&
         at::equal(twin->detach(), tensor.to(twin->options()));
}

}  // namespace

Model make_model_for(const TensorMap& tensors, const Config& config, const fs::path& source) {
  check_number_of_weights(config, tensors, source);
  Config own = config;
  // Published RoFormerV2 configs have no key for it: the weights tell.
  if (own.norm_type == NormType::kRms) {
    own.mlm_transform =
        own.mlm_transform && tensors.contains("cls.predictions.transform.dense.weight");
  }
  return make_model(own);
}

LoadReport load_weights(ModelImpl& model, const TensorMap& tensors, const std::string& source) {
  const at::NoGradGuard no_grad;
  LoadReport report;
  std::set<std::string> used;
  for (const auto& item : model.named_parameters()) {
    const TensorMap::const_iterator none = tensors.end();
    TensorMap::const_iterator found = none;
    for (const std::string& name : file_names_of(item.key(), model.config())) {
      if (found == none) found = tensors.find(name);
    }
    if (found == none) {
      report.missing.push_back(item.key());
      continue;
    }
    const at::Tensor& tensor = found->second;
    if (tensor.sizes() != item.value().sizes() || !tensor.is_floating_point()) {
      std::ostringstream text;
      text << "tensor " << quote(found->first) << " is " << tensor.sizes() << " of "
           << tensor.scalar_type() << ", the config wants real numbers "
           << shape_text(item.value());
      fail_file(source, text.str());
    }
    if (!at::isfinite(tensor).all().item<bool>()) {
      fail_file(source, "tensor " + quote(found->first) + " has NaN or infinity");
    }
    item.value().copy_(tensor);
    used.insert(found->first);
  }
  for (const auto& [name, tensor] : tensors) {
    if (used.contains(name) || is_position_table(name)) continue;
    (is_tied(name, tensor, model) ? report.tied : report.unused).push_back(name);
  }
  return report;
}

Loaded load_model(const fs::path& path, std::optional<Task> task) {
  return load_model(path, [&task](Config& config) {
    if (task) config.task = *task;
  });
}

Loaded load_model(const fs::path& path, const ConfigChange& change) {
  const CheckpointFiles files = find_checkpoint(path);
  Config config = read_config(files.config);
  change(config);
  const TensorMap tensors = read_weights(files.weights);
  Loaded loaded{.model = make_model_for(tensors, config, files.weights)};
  loaded.report = load_weights(*loaded.model, tensors, files.weights.string());
  loaded.model->eval();
  return loaded;
}

Model load_complete_model(const fs::path& path, std::optional<Task> task) {
  return load_complete_model(path, [&task](Config& config) {
    if (task) config.task = *task;
  });
}

Model load_complete_model(const fs::path& path, const ConfigChange& change) {
  Loaded loaded = load_model(path, change);
  const std::vector<std::string>& missing = loaded.report.missing;
  if (!missing.empty()) {
    fail_file(path,
              "tensor " + quote(missing.front()) + " is missing" +
                  (missing.size() > 1 ? ", and " + std::to_string(missing.size() - 1) + " more"
                                      : std::string()));
  }
  return loaded.model;
}

}  // namespace rotary::roformer
