// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/reference.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "json/json.h"
#include "roformer/checkpoint/names.h"
#include "rotary/error.h"
#include "rotary/io.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

[[noreturn]] void fail(const std::string& source, const std::string& message) {
  throw IoError(source, IoError::kNoOffset, message);
}

/// Nested lists of numbers.
class Numbers {
 public:
  Numbers(const Json& json, std::string key, const std::string& source)
      : key_(std::move(key)), source_(source) {
    for (const Json* at = &json; at->is_array(); at = &at->elements().front()) {
      if (at->empty()) fail(source_, key_ + " must not have empty lists");
      if (shape_.size() == kMaxLists) fail(source_, key_ + " is nested too deeply");
      shape_.push_back(static_cast<std::int64_t>(at->size()));
    }
    collect(json, 0);
  }
  /// float64
  at::Tensor tensor() const { return at::tensor(values_, at::kDouble).view(shape_); }
  at::Tensor whole() const {
    for (const double value : values_) {
      if (value != std::trunc(value)) fail(source_, key_ + " must be whole numbers");
    }
    return tensor().to(at::kLong);
  }

 private:
  static constexpr std::size_t kMaxLists = 8;

  void collect(const Json& json, std::size_t depth) {
    if (depth == shape_.size()) {
      if (!json.is_number()) fail(source_, key_ + " must be lists of numbers");
      values_.push_back(json.as_double());
      return;
    }
    if (!json.is_array() || json.size() != static_cast<std::size_t>(shape_[depth])) {
      fail(source_, key_ + " must be lists of one length");
    }
    for (const Json& item : json.elements()) collect(item, depth + 1);
  }

  std::string key_;
  const std::string& source_;
  std::vector<std::int64_t> shape_;
  std::vector<double> values_;
};

std::optional<Numbers> find(const Json& json, const char* key, const std::string& source) {
  const Json* found = json.find(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return Numbers(*found, key, source);
}

void check_inputs(const ModelImpl& model, const Reference& reference, const std::string& source) {
  const auto check_range = [&source](const at::Tensor& ids, std::int64_t end, const char* what) {
    const auto least = ids.min().item<std::int64_t>();
    const auto most = ids.max().item<std::int64_t>();
    if (least < 0 || most >= end) {
      fail(source, std::string(what) + " must be 0 to " + std::to_string(end - 1) + ", got " +
                       std::to_string(least < 0 ? least : most));
    }
  };
  const Inputs& in = reference.inputs;
  check_range(in.ids, model.config().vocab_size, "input_ids");
  if (in.types) check_range(*in.types, model.config().type_vocab_size, "token_type_ids");
  if (!in.labels && (reference.loss || !reference.gradient_norms.empty())) {
    fail(source, "a loss and gradient norms need labels");
  }
  if (!reference.logits && !reference.loss && reference.gradient_norms.empty()) {
    fail(source, "there is nothing to compare with: neither logits nor loss nor grad_norms");
  }
}

Difference compare_logits(const at::Tensor& ours, const at::Tensor& theirs,
                          const std::string& source) {
  if (!ours.defined()) fail(source, "there are logits, but the model has no head");
  if (ours.sizes() != theirs.sizes()) {
    std::ostringstream text;
    text << "logits are " << theirs.sizes() << ", the model's " << ours.sizes();
    fail(source, text.str());
  }
  const at::Tensor a = ours.detach().to(at::kDouble).flatten();
  const at::Tensor b = theirs.flatten();
  const at::Tensor apart = (a - b).abs();
  // max() propagates NaN.
  const auto worst = apart.argmax().item<std::int64_t>();
  return {.what = "logits",
          .ours = a[worst].item<double>(),
          .theirs = b[worst].item<double>(),
          .difference = apart[worst].item<double>(),
          .tolerance = kLogitsTolerance};
}

}  // namespace

Reference read_reference(const std::filesystem::path& path) {
  const std::string source = path.string();
  const MappedFile file(path);
  const Json json = internal::parse_json(file.bytes(), source);
  if (!json.is_object()) fail(source, "not a JSON object");
  Reference reference;
  const auto ids = find(json, "input_ids", source);
  if (!ids) fail(source, "there are no input_ids");
  reference.inputs.ids = ids->whole();
  if (reference.inputs.ids.dim() != 2) fail(source, "input_ids must be [batch, tokens]");
  if (const auto mask = find(json, "attention_mask", source)) {
    reference.inputs.mask = mask->whole();
  }
  if (const auto types = find(json, "token_type_ids", source)) {
    reference.inputs.types = types->whole();
  }
  if (const auto labels = find(json, "labels", source)) {
    const at::Tensor values = labels->tensor();
    reference.inputs.labels = values.equal(values.trunc()) ? labels->whole() : values;
  }
  if (const auto logits = find(json, "logits", source)) reference.logits = logits->tensor();
  if (const auto loss = find(json, "loss", source)) {
    reference.loss = loss->tensor().item<double>();
  }
  if (const Json* norms = json.find("grad_norms")) {
    if (!norms->is_object()) fail(source, "grad_norms must be an object");
    for (const auto& [name, norm] : norms->members()) {
      if (!norm.is_number()) fail(source, "grad_norms must be numbers");
      reference.gradient_norms[name] = norm.as_double();
    }
  }
  return reference;
}

std::vector<Difference> compare(ModelImpl& model, const Reference& reference,
                                const std::string& source) {
  check_inputs(model, reference, source);
  // Plain operations: fused kernels round in another order, which shows in a loss over few rows.
  at::globalContext().setSDPUseFlash(false);
  model.to(at::kCPU, at::kFloat);
  model.eval();
  model.zero_grad();
  const Output out = model.forward(reference.inputs);
  std::vector<Difference> all;
  if (reference.logits) all.push_back(compare_logits(out.logits, *reference.logits, source));
  if (reference.loss) {
    const double loss = out.loss.item<double>();
    all.push_back({.what = "loss",
                   .ours = loss,
                   .theirs = *reference.loss,
                   .difference = std::abs(loss - *reference.loss),
                   .tolerance = kLossTolerance});
  }
  if (reference.gradient_norms.empty()) return all;
  out.loss.backward();
  // By the names of files, which for a BERT are others than those of parameters.
  std::map<std::string, at::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    parameters.emplace(file_name_of(item.key(), model.config()), item.value());
  }
  double largest = 0.0;
  for (const auto& [name, norm] : reference.gradient_norms) largest = std::max(largest, norm);
  // Gradients that are 0 in exact arithmetic, such as that of the key bias, are rounding errors in
  // both.
  const double rounding = largest * std::numeric_limits<float>::epsilon();
  for (const auto& [name, theirs] : reference.gradient_norms) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      fail(source, "grad_norms names " + name + ", which the model does not have");
    }
    const at::Tensor gradient = found->second.grad();
    const double ours = gradient.defined() ? gradient.norm().item<double>() : 0.0;
    const double apart = std::abs(ours - theirs);
    all.push_back({.what = name,
                   .ours = ours,
                   .theirs = theirs,
                   .difference = apart <= rounding ? 0.0 : apart / std::abs(theirs),
                   .tolerance = kGradientTolerance});
  }
  return all;
}

}  // namespace rotary::roformer::cli
