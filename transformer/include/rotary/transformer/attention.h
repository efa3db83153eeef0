// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Softmax attention for LibTorch: a function of queries, keys and values, and a module.
///
///   rotary::transformer::Attention attention(
///       {.model_dim = 512, .heads = 8, .causal = true,
///        .encoding = rotary::transformer::rope(text)});
///   at::Tensor y = attention->forward(x);
///
/// Fused kernels, PyTorch's or on Hopper the library's own, run wherever mask and bias allow;
/// attention_backend() says which. Wrong arguments throw c10::ValueError. In Python the operators
/// are torch.ops.rotary.*, and the module is rotary.torch.Attention, with the same parameter names.
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

#include "rotary/transformer/context_parallel.h"
#include "rotary/transformer/encodings.h"

namespace rotary::transformer {

/// Attention mask, bias and dropout. A query sees the keys that all masks allow; the result of one
/// that sees none is 0.
struct AttendOptions {
  /// Query t has the position of key `first` + t: `first` keys were in a cache before.
  c10::SymInt first = 0;
  /// Causal mask: only keys up to the query's own.
  bool causal = false;
  /// Sliding window: only keys less than `window` tokens away, with `causal` the last `window`
  /// keys.
  std::optional<c10::SymInt> window{};
  /// [batch, keys], bool: true where there is a token.
  std::optional<at::Tensor> padding{};
  /// Packed (variable-length) sequences: [sequences + 1], int32 or int64, cumulative lengths from 0
  /// to the number of tokens; queries see keys of their own sequence only. `cu_seqlens_k` where
  /// keys have other lengths than queries: the last query of a sequence is then aligned with its
  /// last key.
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<at::Tensor> cu_seqlens_k{};
  /// The length of the longest packed sequence, where known: saves time, changes no result.
  std::optional<c10::SymInt> max_seqlen{};
  /// Added to the scores: what broadcasts to [batch, heads, queries, keys].
  std::optional<at::Tensor> bias{};
  /// Vectors of relative distances that the weights w add to the outputs (Shaw et al. 2018):
  /// [2 m + 1, head_dim of v], sum_j w_ij value_vectors[m + clip(j - i, -m, m)] by token index.
  /// Runs PyTorch's plain operations.
  std::optional<at::Tensor> value_vectors{};
  /// Probability of dropping an attention weight.
  double dropout = 0.0;
  /// 1 / sqrt(head_dim) by default.
  std::optional<double> scale{};
  /// Gradients with the same bits in every run: on CUDA in 16 bits, where there is neither padding
  /// nor bias, a kernel that promises them is chosen. The backward pass of PyTorch's flash kernel
  /// then runs with the process's setting of deterministic algorithms on, which other threads see.
  bool deterministic = false;
};

/// softmax(scale q k^T + bias) v over [batch, heads, tokens, head_dim], with any strides. k and v
/// may have fewer heads than q, a divisor of their number; v may have another head_dim.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttendOptions& options = {});

/// Adds what an encoding of the content does to the options of attend(q, k, v), whose `first` and
/// `scale` are set.
void add_content(EncodingImpl& encoding, const at::Tensor& q, const at::Tensor& k,
                 AttendOptions& options);

/// The backend that attend() selects: "rotary", the library's own, or PyTorch's "flash", "cudnn",
/// "efficient" or "math".
std::string attention_backend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttendOptions& options = {});
/// The backend of this thread's last attend(); empty before the first.
std::string last_attention_backend();

/// KV cache: keys and values of the tokens so far, [batch, heads, tokens, head_dim], in memory that
/// doubles when it is full. For inference: tensors that require gradients are rejected.
class KeyValueCache {
 public:
  /// Memory for `capacity` tokens is allocated by the first append().
  explicit KeyValueCache(std::int64_t capacity = 0) : capacity_(capacity) {}

  /// Appends tokens; returns all keys and values, as views that are valid until the cache grows.
  std::pair<at::Tensor, at::Tensor> append(const at::Tensor& k, const at::Tensor& v);
  std::int64_t tokens() const noexcept { return tokens_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  /// Removes the tokens from `tokens` on; keeps the memory.
  void truncate(std::int64_t tokens);
  /// Replaces batch row b by row rows[b], for beam search.
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
  /// Heads of keys and values (grouped-query attention); 0: as many as queries have.
  std::int64_t kv_heads = 0;
  /// 0: model_dim / heads.
  std::int64_t head_dim = 0;
  /// Input width of the key and value projections; 0: model_dim.
  std::int64_t kv_dim = 0;
  /// Biases of the query, key and value projections, and of the output projection.
  bool bias = true;
  bool output_bias = true;
  bool causal = false;
  std::optional<std::int64_t> window{};
  double dropout = 0.0;
  /// Values are rotated, too (RoFormer's rotary_value).
  bool rotate_values = false;
  /// 1 / sqrt(head_dim) by default; multiplied by the encoding's softmax_scale.
  std::optional<double> scale{};
  /// Position encoding, or none. May be shared by several modules.
  std::shared_ptr<EncodingImpl> encoding{};
  /// The sequence is sharded across ranks: x is this rank's shard.
  std::optional<ContextParallel> context_parallel{};
};

/// Optional inputs of the module beside x.
struct AttentionInputs {
  /// Cross-attention: [batch, tokens, kv_dim], the sequence of keys and values.
  std::optional<at::Tensor> memory{};
  /// [batch, keys], bool, cache included: true where there is a token.
  std::optional<at::Tensor> padding{};
  /// Positions of x's tokens, as in TokenPositions; by default they continue the cache's, or begin
  /// at 0.
  std::optional<at::Tensor> positions{};
  /// Positions of the memory's tokens; 0, 1, 2, .. by default.
  std::optional<at::Tensor> memory_positions{};
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<at::Tensor> memory_cu_seqlens{};
  std::optional<c10::SymInt> max_seqlen{};
  /// Keys and values are appended to it, and queries see all that it holds.
  KeyValueCache* cache = nullptr;
};

/// Projections `query`, `key`, `value` and `output` around attend(), and the submodule `encoding`.
/// Encodings of the input are applied by the model: EncodingImpl::embed().
class AttentionImpl : public ::torch::nn::Module {
 public:
  explicit AttentionImpl(AttentionOptions options);

  /// [batch, tokens, model_dim] to the same.
  at::Tensor forward(const at::Tensor& x, const AttentionInputs& inputs = {});

  const AttentionOptions& options() const noexcept { return options_; }
  /// The backend of the last forward(); empty before the first.
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

}  // namespace rotary::transformer
