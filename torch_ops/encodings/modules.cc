// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Encodings as modules: parameters over what functions.cc computes.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <sstream>
#include <utility>

#include "rotary/torch_encodings.h"
#include "rotation/rope_cache.h"

namespace rotary::torch {

at::Tensor EncodingImpl::embed(const at::Tensor& x, const Where& /*where*/) { return x; }

std::vector<at::Tensor> EncodingImpl::turn(at::TensorList queries, at::TensorList keys,
                                           const Where& /*at*/, const Where* /*keys_at*/) {
  std::vector<at::Tensor> all(queries.begin(), queries.end());
  all.insert(all.end(), keys.begin(), keys.end());
  return all;
}

std::optional<at::Tensor> EncodingImpl::bias(const ScorePlaces& /*places*/,
                                             const at::Tensor& /*like*/) {
  return std::nullopt;
}

namespace {

/// Learned tables start as small noise, as in BERT and T5.
constexpr double kDeviation = 0.02;
/// KERPLE's r1 and r2 start at random, and no nearer to 0 than this, as in its authors' code.
constexpr double kLeast = 0.01;

at::Tensor noise(at::IntArrayRef sizes) { return at::randn(sizes) * kDeviation; }

class NoneImpl final : public EncodingImpl {
 public:
  NoneImpl() : EncodingImpl("None") {}
  EncodingSites sites() const override { return {}; }
};

class LearnedImpl final : public EncodingImpl {
 public:
  LearnedImpl(std::int64_t max_positions, std::int64_t model_dim)
      : EncodingImpl("Learned"),
        weight_(register_parameter("weight", noise({max_positions, model_dim}))) {}
  EncodingSites sites() const override { return {.input = true}; }
  at::Tensor embed(const at::Tensor& x, const Where& where) override {
    if (where.positions) return x + at::embedding(weight_, *where.positions).to(x.scalar_type());
    const c10::SymInt end = where.first + x.sym_size(-2);
    TORCH_CHECK_VALUE(end <= weight_.sym_size(0), "[Learned] positions must be below ",
                      weight_.sym_size(0), ", got ", end - 1);
    return x + weight_.narrow_symint(0, where.first, x.sym_size(-2)).to(x.scalar_type());
  }

 private:
  at::Tensor weight_;
};

class SinusoidalImpl final : public EncodingImpl {
 public:
  SinusoidalImpl() : EncodingImpl("Sinusoidal") {}
  EncodingSites sites() const override { return {.input = true}; }
  at::Tensor embed(const at::Tensor& x, const Where& where) override {
    return add_sinusoids(x, where);
  }
};

class T5Impl final : public EncodingImpl {
 public:
  explicit T5Impl(const EncodingOptions& options)
      : EncodingImpl("T5"),
        causal_(options.causal),
        max_distance_(options.max_distance),
        weight_(register_parameter("weight", noise({options.buckets, options.heads}))) {}
  EncodingSites sites() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& /*like*/) override {
    return t5_bias(weight_, places, causal_, max_distance_);
  }

 private:
  bool causal_;
  std::int64_t max_distance_;
  at::Tensor weight_;
};

class AlibiImpl final : public EncodingImpl {
 public:
  explicit AlibiImpl(std::int64_t heads) : EncodingImpl("Alibi"), heads_(heads) {}
  EncodingSites sites() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& like) override {
    return alibi_bias(alibi_slopes(heads_, like), places);
  }

 private:
  std::int64_t heads_;
};

/// r1 = exp(log_r1); "log": r2 = exp(log_r2); "power": r2 = 2 sigmoid(logit_r2), which lies in
/// (0, 2) as the paper wants it.
class KerpleImpl final : public EncodingImpl {
 public:
  KerpleImpl(std::string kind, std::int64_t heads)
      : EncodingImpl("Kerple"), kind_(std::move(kind)) {
    const auto uniform = [heads](double least, double most) {
      return at::rand({heads}) * (most - least) + least;
    };
    const bool power = kind_ == "power";
    r1_ = register_parameter("log_r1", uniform(kLeast, power ? 1.0 : 2.0).log());
    const at::Tensor r2 = uniform(kLeast, power ? 2.0 - kLeast : 1.0);
    r2_ = power ? register_parameter("logit_r2", at::logit(r2 / 2.0))
                : register_parameter("log_r2", r2.log());
  }
  EncodingSites sites() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& /*like*/) override {
    return kerple_bias(r1_.exp(), kind_ == "power" ? 2.0 * r2_.sigmoid() : r2_.exp(), places,
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
  EncodingSites sites() const override { return {.score = true}; }
  std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& /*like*/) override {
    return distance_bias(table_, places, causal_);
  }

 private:
  bool causal_;
  at::Tensor table_;
};

class RotationImpl final : public EncodingImpl {
 public:
  explicit RotationImpl(const EncodingOptions& options)
      : EncodingImpl("Rotation"),
        rotation_(register_module("rotation",
                                  RotaryEmbedding({.rope = options.rope, .learn = options.learn}))),
        grows_(find_rope(options.rope)->grows()),
        softmax_scale_(find_rope(options.rope)->frequencies().softmax_scale) {}
  EncodingSites sites() const override { return {.query_key = true}; }
  double softmax_scale() const override { return softmax_scale_; }
  std::vector<at::Tensor> turn(at::TensorList queries, at::TensorList keys, const Where& at,
                               const Where* keys_at) override {
    if (keys_at == nullptr && !grows_) {
      return rotation_->forward(EncodingImpl::turn(queries, keys, at), at);
    }
    std::vector<at::Tensor> all = rotation_->forward(queries, at);
    for (at::Tensor& x : rotation_->forward_keys(keys, keys_at == nullptr ? at : *keys_at)) {
      all.push_back(std::move(x));
    }
    return all;
  }

 private:
  RotaryEmbedding rotation_;
  bool grows_;
  double softmax_scale_;
};

/// Several, one after the other; their biases add up.
class HybridImpl final : public EncodingImpl {
 public:
  explicit HybridImpl(std::vector<std::shared_ptr<EncodingImpl>> parts)
      : EncodingImpl("Hybrid"), parts_(std::move(parts)) {
    for (std::size_t i = 0; i < parts_.size(); ++i) register_module(std::to_string(i), parts_[i]);
  }
  EncodingSites sites() const override {
    EncodingSites all;
    for (const auto& part : parts_) {
      const EncodingSites one = part->sites();
      all.input |= one.input;
      all.query_key |= one.query_key;
      all.score |= one.score;
    }
    return all;
  }
  double softmax_scale() const override {
    double all = 1.0;
    for (const auto& part : parts_) all *= part->softmax_scale();
    return all;
  }
  at::Tensor embed(const at::Tensor& x, const Where& where) override {
    at::Tensor y = x;
    for (const auto& part : parts_) y = part->embed(y, where);
    return y;
  }
  std::vector<at::Tensor> turn(at::TensorList queries, at::TensorList keys, const Where& at,
                               const Where* keys_at) override {
    std::vector<at::Tensor> all = EncodingImpl::turn(queries, keys, at);
    for (const auto& part : parts_) {
      if (!part->sites().query_key) continue;
      const at::TensorList list(all);
      all = part->turn(list.slice(0, queries.size()), list.slice(queries.size()), at, keys_at);
    }
    return all;
  }
  std::optional<at::Tensor> bias(const ScorePlaces& places, const at::Tensor& like) override {
    std::optional<at::Tensor> sum;
    for (const auto& part : parts_) {
      const auto one = part->bias(places, like);
      if (one) sum = sum ? *sum + *one : *one;
    }
    return sum;
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
  TORCH_CHECK_VALUE(name != "xpos" || find_rope(options.rope)->grows(),
                    "[make_encoding] xpos wants a rope that grows, got ", options.rope);
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
  TORCH_CHECK_VALUE(false,
                    "[make_encoding] name must be none, learned, sinusoidal, t5, alibi, "
                    "kerple_log, kerple_power, distance, rope or xpos, or several with + between "
                    "them, got ",
                    name);
}

}  // namespace

std::shared_ptr<EncodingImpl> make_encoding(const EncodingOptions& options) {
  std::vector<std::shared_ptr<EncodingImpl>> parts;
  std::istringstream names(options.name);
  for (std::string name; std::getline(names, name, '+');) parts.push_back(make_one(name, options));
  if (parts.empty()) return make_one(options.name, options);
  if (parts.size() == 1) return parts[0];
  return std::make_shared<HybridImpl>(std::move(parts));
}

std::shared_ptr<EncodingImpl> rope(std::string text) {
  return make_encoding({.name = "rope", .rope = std::move(text)});
}

}  // namespace rotary::torch
