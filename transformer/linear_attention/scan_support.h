// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the scans on CPU and CUDA share: argument checks, chunks of tokens, and matrix products in
// the accumulator type.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <cstdint>
#include <optional>

namespace rotary::transformer {

/// Throw c10::ValueError that begins with `function`. `same_dims`: leading dimensions that must be
/// equal; `factors`: [.., tokens], of the accumulator type.
void check_scan_type(const char* function, const at::Tensor& x);
void check_scan_like(const char* function, const at::Tensor& x, const at::Tensor& other,
                     std::int64_t same_dims);
void check_scan_factors(const char* function, const at::Tensor& x,
                        const std::optional<at::Tensor>& factors);

/// [batch_heads, tokens, width], contiguous; factors [batch_heads, tokens].
at::Tensor flatten_batch(const at::Tensor& x);
at::Tensor flatten_factors(const at::Tensor& factors);

/// Tokens of a chunk: within it all pairs are computed, between chunks a state is carried.
inline constexpr std::int64_t kChunk = 64;
/// [batch_heads, tokens, width] as [batch_heads * chunks, chunk, width], zero-padded.
at::Tensor to_chunks(const at::Tensor& x, std::int64_t chunk, std::int64_t chunks);

/// Products of 16-bit matrices with float results: on CUDA, from PyTorch 2.8 on.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
inline constexpr bool kHasFloatProducts = true;
#else
inline constexpr bool kHasFloatProducts = false;
#endif

/// Batched matrix product in the accumulator type; add_bmm() adds it to `sum`.
at::Tensor accum_bmm(const at::Tensor& a, const at::Tensor& b);
void add_bmm(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace rotary::transformer
