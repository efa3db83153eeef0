// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/encodings/relative_modules.h"

#include <ATen/Functions.h>
#include <torch/nn/modules/linear.h>

namespace rotary::transformer {
namespace {

/// Standard deviation of the parameters at initialisation, as in the authors' code.
constexpr double kRelativeInitStd = 0.02;

std::int64_t head_dim_of(std::string_view name, const EncodingOptions& options) {
  TORCH_CHECK_VALUE(
      options.head_dim > 0 || (options.model_dim > 0 && options.model_dim % options.heads == 0),
      "[make_encoding] head_dim, or a model_dim that heads divide, must be given for ", name,
      ", got ", options.head_dim, " and ", options.model_dim);
  return options.head_dim > 0 ? options.head_dim : options.model_dim / options.heads;
}

/// Row n is j - i = n - max_distance, in the table as in the paper's and NEZHA's.
class ShawImpl final : public EncodingImpl {
 public:
  ShawImpl(const EncodingOptions& options, bool learned)
      : EncodingImpl(learned ? "Shaw" : "Nezha"),
        later_(options.causal ? options.max_distance : 0),
        rows_(2 * options.max_distance + 1 - later_),
        head_dim_(head_dim_of(learned ? "shaw" : "nezha", options)) {
    if (!learned) return;
    const auto table = [this] { return at::randn({rows_, head_dim_}) * kRelativeInitStd; };
    keys_ = register_parameter("keys", table());
    values_ = register_parameter("values", table());
  }
  EncodingTargets targets() const override { return {.content = true}; }
  std::optional<at::Tensor> content_bias(const at::Tensor& q, const at::Tensor& k,
                                         const c10::SymInt& first) override {
    return shaw_bias(q, table_for(keys_, q), k.sym_size(2), first);
  }
  std::optional<at::Tensor> value_vectors(const at::Tensor& like) override {
    return table_for(values_, like);
  }

 private:
  /// Sinusoids where nothing is learned: of the row, as in NEZHA. Later keys, which are masked,
  /// have vectors of 0.
  at::Tensor table_for(const at::Tensor& learned, const at::Tensor& like) const {
    const at::Tensor table =
        learned.defined()
            ? learned
            : add_sinusoids(at::zeros({rows_, head_dim_}, like.options().dtype(at::kDouble)));
    return later_ == 0 ? table : at::constant_pad_nd(table, {0, 0, 0, later_});
  }

  std::int64_t later_;
  std::int64_t rows_;
  std::int64_t head_dim_;
  at::Tensor keys_;
  at::Tensor values_;
};

class TransformerXlImpl final : public EncodingImpl {
 public:
  explicit TransformerXlImpl(const EncodingOptions& options) : EncodingImpl("TransformerXl") {
    const std::int64_t head_dim = head_dim_of("transformer_xl", options);
    position_ = register_module(
        "position",
        ::torch::nn::Linear(
            ::torch::nn::LinearOptions(options.model_dim, options.heads * head_dim).bias(false)));
    position_->weight.detach().normal_(0.0, kRelativeInitStd);
    const auto bias = [&] { return at::randn({options.heads, head_dim}) * kRelativeInitStd; };
    u_ = register_parameter("u", bias());
    v_ = register_parameter("v", bias());
  }
  EncodingTargets targets() const override { return {.content = true}; }
  std::optional<at::Tensor> content_bias(const at::Tensor& q, const at::Tensor& k,
                                         const c10::SymInt& first) override {
    return transformer_xl_bias(q, k, position_->weight, u_, v_, first);
  }

 private:
  ::torch::nn::Linear position_{nullptr};
  at::Tensor u_;
  at::Tensor v_;
};

}  // namespace

std::shared_ptr<EncodingImpl> make_shaw(const EncodingOptions& options, bool learned) {
  return std::make_shared<ShawImpl>(options, learned);
}

std::shared_ptr<EncodingImpl> make_transformer_xl(const EncodingOptions& options) {
  return std::make_shared<TransformerXlImpl>(options);
}

}  // namespace rotary::transformer
