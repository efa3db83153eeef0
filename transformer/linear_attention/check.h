// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Argument checks of linear attention. All throw c10::ValueError.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "rotary/transformer/linear_attention.h"

namespace rotary::transformer {

void check_linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const LinearAttendOptions& options);

/// cu_seqlens, checked and copied to the host.
std::vector<std::int64_t> read_boundaries(const at::Tensor& cu_seqlens, std::int64_t tokens);

/// "numerator", "cosine", "rotated" or "before"; "elu", "relu" or "favor".
LinearVariant variant_of(std::string_view name);
FeatureMap feature_map_of(std::string_view name);
const char* name_of(LinearVariant variant);
const char* name_of(FeatureMap map);

}  // namespace rotary::transformer
