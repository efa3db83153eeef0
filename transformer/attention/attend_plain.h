// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// attend() by PyTorch's plain operations, which have the attention weights: for value_vectors.
#pragma once

#include "rotary/transformer/attention.h"

namespace rotary::transformer {

/// Arguments as check_attend() leaves them, with value_vectors.
at::Tensor attend_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttendOptions& options);

}  // namespace rotary::transformer
