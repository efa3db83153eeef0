// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Encodings as modules: parameters, and the functions of functions.cc.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "pytorch/rope_cache.h"
#include "rotary/transformer/encodings.h"
#include "transformer/encodings/relative_modules.h"

namespace rotary::transformer {

at::Tensor EncodingImpl::embed(const at::Tensor& x, const torch::TokenPositions& /*positions*/) {
  return x;
}

std::vector<at::Tensor> EncodingImpl::rotate(at::TensorList queries, at::TensorList keys,
                                             const torch::TokenPositions& /*positions*/,
                                             const torch::TokenPositions* /*key_positions*/) {
  std::vector<at::Tensor> all(queries.begin(), queries.end());
  all.insert(all.end(), keys.begin(), keys.end());
  return all;
}

std::optional<at::Tensor> EncodingImpl::bias(const ScorePositions& /*positions*/,
                                             const at::Tensor& /*like*/) {
  return std::nullopt;
}

std::optional<at::Tensor> EncodingImpl::content_bias(const at::Tensor& /*q*/,
                                                     const at::Tensor& /*k*/,
                                                     const c10::SymInt& /*first*/) {
  return std::nullopt;
}

std::optional<at::Tensor> EncodingImpl::value_vectors(const at::Tensor& /*like*/) {
  return std::nullopt;
}

namespace {

/// Standard deviation of learned tables at initialisation, as in BERT and T5.
constexpr double kInitStd = 0.02;
/// Smallest initial r1 and r2 of KERPLE, as in its authors' code.
constexpr double kMinKerple = 0.01;

at::Tensor normal_init(at::IntArrayRef sizes) { return at::randn(sizes) * kInitStd; }

class NoneImpl final : public EncodingImpl {
 public:
  NoneImpl() : EncodingImpl("None") {}
  EncodingTargets targets() const override { return {}; }
};

class LearnedImpl final : public EncodingImpl {
 public:
  LearnedImpl(std::int64_t max_positions, std::int64_t model_dim)
      : EncodingImpl("Learned"),
        weight_(register_parameter("weight", normal_init({max_positions, model_dim}))) {}
  EncodingTargets targets() const override { return {.input = true}; }
  at::Tensor embed(const at::Tensor& x, const torch::TokenPositions& positions) override {
    if (positions.positions)
      return x + at::embedding(weight_, *positions.positions).to(x.scalar_type());
    const c10::SymInt end = positions.first + x.sym_size(-2);
    TORCH_CHECK_VALUE(end <= weight_.sym_size(0), "[Learned] positions must be below ",
                      weight_.sym_size(0), ", got ", end - 1);
    return x + weight_.narrow_symint(0, positions.first, x.sym_size(-2)).to(x.scalar_type());
  }

 private:
  at::Tensor weight_;
};

class SinusoidalImpl final : public EncodingImpl {
 public:
  SinusoidalImpl() : EncodingImpl("Sinusoidal") {}
  EncodingTargets targets() const override { return {.input = true}; }
  at::Tensor embed(const at::Tensor& x, const torch::TokenPositions& positions) override {
    return add_sinusoids(x, positions);
  }
};

class T5Impl final : public EncodingImpl {
 public:
  explicit T5Impl(const EncodingOptions& options)
      : EncodingImpl("T5"),
        causal_(options.causal),
        max_distance_(options.max_distance),
        weight_(register_parameter("weight", normal_init({options.buckets, options.heads}))) {}
  EncodingTargets targets() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePositions& positions,
                                 const at::Tensor& /*like*/) override {
    return t5_bias(weight_, positions, causal_, max_distance_);
  }

 private:
  bool causal_;
  std::int64_t max_distance_;
  at::Tensor weight_;
};

class AlibiImpl final : public EncodingImpl {
 public:
  explicit AlibiImpl(std::int64_t heads) : EncodingImpl("Alibi"), heads_(heads) {}
  EncodingTargets targets() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePositions& positions, const at::Tensor& like) override {
    return alibi_bias(alibi_slopes(heads_, like), positions);
  }

 private:
  std::int64_t heads_;
};

/// r1 = exp(log_r1); "log": r2 = exp(log_r2); "power": r2 = 2 sigmoid(logit_r2), in (0, 2)
/// as in the paper.
class KerpleImpl final : public EncodingImpl {
 public:
  KerpleImpl(std::string kind, std::int64_t heads)
      : EncodingImpl("Kerple"), kind_(std::move(kind)) {
    const auto uniform = [heads](double min, double max) {
      return at::rand({heads}) * (max - min) + min;
    };
    const bool power = kind_ == "power";
    r1_ = register_parameter("log_r1", uniform(kMinKerple, power ? 1.0 : 2.0).log());
    const at::Tensor r2 = uniform(kMinKerple, power ? 2.0 - kMinKerple : 1.0);
    r2_ = power ? register_parameter("logit_r2", at::logit(r2 / 2.0))
                : register_parameter("log_r2", r2.log());
  }
  EncodingTargets targets() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePositions& positions,
                                 const at::Tensor& /*like*/) override {
    return kerple_bias(r1_.exp(), kind_ == "power" ? 2.0 * r2_.sigmoid() : r2_.exp(), positions,
                       kind_);
  }

 private:
  std::string kind_;
  at::Tensor r1_;
  at::Tensor r2_;
};

class DistanceImpl final : public EncodingImpl {
 public:
  explicit DistanceImpl(const EncodingOptions& options)
      : EncodingImpl("Distance"),
        causal_(options.causal),
        table_(register_parameter(
            "table", at::zeros({(causal_ ? 1 : 2) * options.max_distance + 1, options.heads}))) {}
  EncodingTargets targets() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePositions& positions,
                                 const at::Tensor& /*like*/) override {
    return distance_bias(table_, positions, causal_);
  }

 private:
  bool causal_;
  at::Tensor table_;
};

class RotationImpl final : public EncodingImpl {
 public:
  explicit RotationImpl(const EncodingOptions& options)
      : EncodingImpl("Rotation"),
        rotation_(register_module("rotation", torch::RotaryEmbedding({.rope = options.rope,
                                                                      .learn = options.learn,
                                                                      .heads = options.heads}))),
        grows_(torch::find_rope(options.rope)->grows()),
        softmax_scale_(torch::find_rope(options.rope)->frequencies().softmax_scale) {}
  EncodingTargets targets() const override { return {.query_key = true}; }
  double softmax_scale() const override { return softmax_scale_; }
  std::vector<at::Tensor> rotate(at::TensorList queries, at::TensorList keys,
                                 const torch::TokenPositions& positions,
                                 const torch::TokenPositions* key_positions) override {
    if (key_positions == nullptr && !grows_) {
      return rotation_->forward(EncodingImpl::rotate(queries, keys, positions), positions);
    }
    std::vector<at::Tensor> all = rotation_->forward(queries, positions);
    for (at::Tensor& x :
         rotation_->forward_keys(keys, key_positions == nullptr ? positions : *key_positions)) {
      all.push_back(std::move(x));
    }
    return all;
  }

 private:
  torch::RotaryEmbedding rotation_;
  bool grows_;
  double softmax_scale_;
};

/// Several encodings, applied in order; their biases are added.
class HybridImpl final : public EncodingImpl {
 public:
  explicit HybridImpl(std::vector<std::shared_ptr<EncodingImpl>> parts)
      : EncodingImpl("Hybrid"), parts_(std::move(parts)) {
    for (std::size_t i = 0; i < parts_.size(); ++i) register_module(std::to_string(i), parts_[i]);
  }
  EncodingTargets targets() const override {
    EncodingTargets all;
    for (const auto& part : parts_) {
      const EncodingTargets one = part->targets();
      all.input |= one.input;
      all.query_key |= one.query_key;
      all.score |= one.score;
      all.content |= one.content;
    }
    return all;
  }
  double softmax_scale() const override {
    double all = 1.0;
    for (const auto& part : parts_) all *= part->softmax_scale();
    return all;
  }
  at::Tensor embed(const at::Tensor& x, const torch::TokenPositions& positions) override {
    at::Tensor y = x;
    for (const auto& part : parts_) y = part->embed(y, positions);
    return y;
  }
  std::vector<at::Tensor> rotate(at::TensorList queries, at::TensorList keys,
                                 const torch::TokenPositions& positions,
                                 const torch::TokenPositions* key_positions) override {
    std::vector<at::Tensor> all = EncodingImpl::rotate(queries, keys, positions);
    for (const auto& part : parts_) {
      if (!part->targets().query_key) continue;
      const at::TensorList list(all);
      all = part->rotate(list.slice(0, queries.size()), list.slice(queries.size()), positions,
                         key_positions);
    }
    return all;
  }
  std::optional<at::Tensor> bias(const ScorePositions& positions, const at::Tensor& like) override {
    std::optional<at::Tensor> sum;
    for (const auto& part : parts_) {
      const auto one = part->bias(positions, like);
      if (one) sum = sum ? *sum + *one : *one;
    }
    return sum;
  }
  std::optional<at::Tensor> content_bias(const at::Tensor& q, const at::Tensor& k,
                                         const c10::SymInt& first) override {
    std::optional<at::Tensor> sum;
    for (const auto& part : parts_) {
      const auto one = part->content_bias(q, k, first);
      if (one) sum = sum ? *sum + *one : *one;
    }
    return sum;
  }
  std::optional<at::Tensor> value_vectors(const at::Tensor& like) override {
    for (const auto& part : parts_) {
      if (auto vectors = part->value_vectors(like)) return vectors;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::shared_ptr<EncodingImpl>> parts_;
};

void check_positive(std::string_view encoding, std::string_view name, std::int64_t value) {
  TORCH_CHECK_VALUE(value > 0, "[make_encoding] ", name, " must be positive for ", encoding,
                    ", got ", value);
}

std::shared_ptr<EncodingImpl> make_rotation(const std::string& name,
                                            const EncodingOptions& options) {
  TORCH_CHECK_VALUE(name != "xpos" || torch::find_rope(options.rope)->grows(),
                    "[make_encoding] rope must have growth for xpos, got ", options.rope);
  return std::make_shared<RotationImpl>(options);
}

std::shared_ptr<EncodingImpl> make_one(const std::string& name, const EncodingOptions& options) {
  if (name == "none") return std::make_shared<NoneImpl>();
  if (name == "sinusoidal") return std::make_shared<SinusoidalImpl>();
  if (name == "rope" || name == "xpos") return make_rotation(name, options);
  if (name == "learned") {
    check_positive(name, "model_dim", options.model_dim);
    check_positive(name, "max_positions", options.max_positions);
    return std::make_shared<LearnedImpl>(options.max_positions, options.model_dim);
  }
  check_positive(name, "heads", options.heads);
  if (name == "t5") return std::make_shared<T5Impl>(options);
  if (name == "alibi") return std::make_shared<AlibiImpl>(options.heads);
  if (name == "kerple_log") return std::make_shared<KerpleImpl>("log", options.heads);
  if (name == "kerple_power") return std::make_shared<KerpleImpl>("power", options.heads);
  if (name == "distance") {
    check_positive(name, "max_distance", options.max_distance);
    return std::make_shared<DistanceImpl>(options);
  }
  if (name == "shaw" || name == "nezha") {
    check_positive(name, "max_distance", options.max_distance);
    return make_shaw(options, name == "shaw");
  }
  if (name == "transformer_xl") {
    check_positive(name, "model_dim", options.model_dim);
    return make_transformer_xl(options);
  }
  TORCH_CHECK_VALUE(false,
                    "[make_encoding] name must be none, learned, sinusoidal, t5, alibi, "
                    "kerple_log, kerple_power, distance, shaw, nezha, transformer_xl, rope or "
                    "xpos, or several with + between them, got ",
                    name);
}

}  // namespace

std::shared_ptr<EncodingImpl> make_encoding(const EncodingOptions& options) {
  std::vector<std::shared_ptr<EncodingImpl>> parts;
  std::istringstream names(options.name);
  for (std::string name; std::getline(names, name, '+');) parts.push_back(make_one(name, options));
  if (parts.empty()) return make_one(options.name, options);
  if (parts.size() == 1) return parts[0];
  const auto num_content =
      std::ranges::count_if(parts, [](const auto& part) { return part->targets().content; });
  // Vectors of distances belong to queries and keys that do not know where they are.
  const bool rotates =
      std::ranges::any_of(parts, [](const auto& part) { return part->targets().query_key; });
  TORCH_CHECK_VALUE(num_content == 0 || (num_content == 1 && !rotates),
                    "[make_encoding] name must have at most one of shaw, nezha and "
                    "transformer_xl, and neither rope nor xpos with it, got ",
                    options.name);
  return std::make_shared<HybridImpl>(std::move(parts));
}

std::shared_ptr<EncodingImpl> rope(std::string text) {
  return make_encoding({.name = "rope", .rope = std::move(text)});
}

}  // namespace rotary::transformer
