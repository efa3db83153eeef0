// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "rotary/transformer/attention.h"

namespace rotary::transformer {
namespace {

bool same_except_tokens(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == 4 && b.dim() == 4 && a.size(0) == b.size(0) && a.size(1) == b.size(1) &&
         a.size(3) == b.size(3) && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

at::Tensor reallocate(const at::Tensor& old, const at::Tensor& like, std::int64_t capacity,
                      std::int64_t tokens) {
  at::Tensor grown =
      at::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.options());
  if (old.defined()) grown.narrow(2, 0, tokens).copy_(old.narrow(2, 0, tokens));
  return grown;
}

}  // namespace

void KeyValueCache::reserve(const at::Tensor& k, const at::Tensor& v, std::int64_t tokens) {
  if (keys_.defined() && tokens <= capacity_) return;
  capacity_ = keys_.defined() ? std::max(tokens, 2 * capacity_) : std::max(tokens, capacity_);
  keys_ = reallocate(keys_, k, capacity_, tokens_);
  values_ = reallocate(values_, v, capacity_, tokens_);
}

std::pair<at::Tensor, at::Tensor> KeyValueCache::append(const at::Tensor& k, const at::Tensor& v) {
  TORCH_CHECK_VALUE(!at::GradMode::is_enabled() || (!k.requires_grad() && !v.requires_grad()),
                    "[KeyValueCache] keys and values must not need gradients, got some that do");
  TORCH_CHECK_VALUE(k.dim() == 4 && v.dim() == 4 && k.size(2) == v.size(2),
                    "[KeyValueCache] k and v must be [batch, heads, tokens, head_dim] with the "
                    "same tokens, got ",
                    k.sizes(), " and ", v.sizes());
  TORCH_CHECK_VALUE(
      !keys_.defined() || (same_except_tokens(k, keys_) && same_except_tokens(v, values_)),
      "[KeyValueCache] k and v must be as those before but for their tokens, got ", k.sizes(),
      " and ", v.sizes());
  const at::NoGradGuard guard;
  const std::int64_t added = k.size(2);
  reserve(k, v, tokens_ + added);
  keys_.narrow(2, tokens_, added).copy_(k);
  values_.narrow(2, tokens_, added).copy_(v);
  tokens_ += added;
  return {keys_.narrow(2, 0, tokens_), values_.narrow(2, 0, tokens_)};
}

void KeyValueCache::truncate(std::int64_t tokens) {
  TORCH_CHECK_VALUE(tokens >= 0 && tokens <= tokens_, "[KeyValueCache] tokens must be from 0 to ",
                    tokens_, ", got ", tokens);
  tokens_ = tokens;
}

void KeyValueCache::reorder(const at::Tensor& rows) {
  if (!keys_.defined()) return;
  const at::NoGradGuard guard;
  keys_ = keys_.index_select(0, rows);
  values_ = values_.index_select(0, rows);
}

}  // namespace rotary::transformer
