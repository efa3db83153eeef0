// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Softmax attention for LibTorch: a function over queries, keys and values, and a module.
///
///   rotary::torch::Attention attention(
///       {.model_dim = 512, .heads = 8, .causal = true, .encoding = rotary::torch::rope(text)});
///   at::Tensor y = attention->forward(x);
///
/// Fused kernels, PyTorch's or on Hopper the library's own, do the work wherever mask and bias
/// allow; attention_backend() says which. c10::ValueError says what does not fit. The same
/// operators are torch.ops.rotary.* in Python, and the module has a twin there,
/// rotary.torch.Attention, with the same names of parameters.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rotary/torch_context_parallel.h"
#include "rotary/torch_encodings.h"

namespace rotary::torch {

/// Which keys a query sees, and what is added to its scores. A query sees the keys that every line
/// allows; one that sees none gives 0.
struct AttendOptions {
  /// Query t stands beside key `first` + t: keys that were there before, in a cache.
  c10::SymInt first = 0;
  /// Only keys up to its own.
  bool causal = false;
  /// Only keys less than `window` tokens away, so that with `causal` it sees `window` keys.
  std::optional<c10::SymInt> window{};
  /// [batch, keys], bool: true where there is a token.
  std::optional<at::Tensor> padding{};
  /// [sequences + 1], int32 or int64, from 0 to the number of tokens: sequences packed along the
  /// tokens; queries see keys of their own only. `cu_seqlens_k` where keys have other lengths than
  /// queries: the last query of a sequence then stands beside its last key.
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<at::Tensor> cu_seqlens_k{};
  /// The longest packed sequence, where it is known: spares the device work, changes nothing.
  std::optional<c10::SymInt> max_seqlen{};
  /// Added to the scores: what broadcasts to [batch, heads, queries, keys].
  std::optional<at::Tensor> bias{};
  /// The probability with which a weight is dropped.
  double dropout = 0.0;
  /// 1 / sqrt(head_dim) where it is absent.
  std::optional<double> scale{};
};

/// softmax(scale q k^T + bias) v over [batch, heads, tokens, head_dim], with any strides. k and v
/// may have fewer heads than q, a divisor of their number; v may have another head_dim.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttendOptions& options = {});

/// The kernel that attend() runs: "rotary", the library's own, or PyTorch's "flash", "cudnn",
/// "efficient" or "math".
std::string attention_backend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttendOptions& options = {});
/// What the last attend() of this thread ran; empty before the first.
std::string last_attention_backend();

/// Keys and values of the tokens so far, [batch, heads, tokens, head_dim], in memory that is
/// allocated ahead and doubles when it is full. For inference: what needs a gradient is refused.
class KeyValueCache {
 public:
  /// Room for `capacity` tokens is made at the first append().
  explicit KeyValueCache(std::int64_t capacity = 0) : capacity_(capacity) {}

  /// Adds tokens; returns all keys and values, as views that live until the cache grows.
  std::pair<at::Tensor, at::Tensor> append(const at::Tensor& k, const at::Tensor& v);
  std::int64_t tokens() const noexcept { return tokens_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  /// Forgets the tokens from `tokens` on; keeps the memory.
  void truncate(std::int64_t tokens);
  /// Row b becomes what row rows[b] was: beam search.
  void reorder(const at::Tensor& rows);

 private:
  void reserve(const at::Tensor& k, const at::Tensor& v, std::int64_t tokens);

  std::int64_t capacity_ = 0;
  std::int64_t tokens_ = 0;
  at::Tensor keys_;
  at::Tensor values_;
};

struct AttentionOptions {
  std::int64_t model_dim = 0;
  std::int64_t heads = 0;
  /// Heads of keys and values; 0: as many as queries have.
  std::int64_t kv_heads = 0;
  /// 0: model_dim / heads.
  std::int64_t head_dim = 0;
  /// The size of what keys and values are made of; 0: model_dim.
  std::int64_t kv_dim = 0;
  /// Whether query, key and value have a bias, and whether output has.
  bool bias = true;
  bool output_bias = true;
  bool causal = false;
  std::optional<std::int64_t> window{};
  double dropout = 0.0;
  /// Values turn with the keys (RoFormer's rotary_value).
  bool rotate_values = false;
  /// 1 / sqrt(head_dim) where it is absent; the encoding's softmax_scale comes on top.
  std::optional<double> scale{};
  /// How scores know of positions; empty: not at all. May be shared by several modules.
  std::shared_ptr<EncodingImpl> encoding{};
  /// The sequence is sharded across ranks: x is this rank's shard.
  std::optional<ContextParallel> context_parallel{};
};

/// What a call of the module may say beside x.
struct AttentionInputs {
  /// [batch, tokens, kv_dim]: keys and values of another sequence.
  std::optional<at::Tensor> memory{};
  /// [batch, keys], bool, cache included: true where there is a token.
  std::optional<at::Tensor> padding{};
  /// Where the tokens of x stand, as in Where; from `cache`'s end on, or from 0, where absent.
  std::optional<at::Tensor> positions{};
  /// Where those of the memory stand; from 0 on where absent.
  std::optional<at::Tensor> memory_positions{};
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<at::Tensor> memory_cu_seqlens{};
  std::optional<c10::SymInt> max_seqlen{};
  /// Keys and values are added to it, and queries see all that it holds.
  KeyValueCache* cache = nullptr;
};

/// Linear maps `query`, `key`, `value` and `output` around attend(), and the submodule `encoding`.
/// Encodings of the input are the model's to apply: EncodingImpl::embed().
class AttentionImpl : public ::torch::nn::Module {
 public:
  explicit AttentionImpl(AttentionOptions options);

  /// [batch, tokens, model_dim] to the same.
  at::Tensor forward(const at::Tensor& x, const AttentionInputs& inputs = {});

  const AttentionOptions& options() const noexcept { return options_; }
  /// The kernel of the last forward(); empty before the first.
  const std::string& backend() const noexcept { return backend_; }
  void pretty_print(std::ostream& stream) const override;

  ::torch::nn::Linear query{nullptr};
  ::torch::nn::Linear key{nullptr};
  ::torch::nn::Linear value{nullptr};
  ::torch::nn::Linear output{nullptr};
  std::shared_ptr<EncodingImpl> encoding{};

 private:
  AttentionOptions options_;
  std::string backend_;
};

class Attention : public ::torch::nn::ModuleHolder<AttentionImpl> {
 public:
  using ::torch::nn::ModuleHolder<AttentionImpl>::ModuleHolder;
  explicit Attention(AttentionOptions options)
      : ModuleHolder(std::make_shared<AttentionImpl>(std::move(options))) {}
};

}  // namespace rotary::torch
