// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Mixed precision: float32 parameters in the type that layers compute in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "roformer/model/parameter_store.h"

namespace rotary::roformer {

using StorePtr = std::shared_ptr<ParameterStore>;

/// Each group of parameters in `type`, concatenated along the first dimension: a view of the
/// store's buffers where it has them, else a copy; all copies are made by one launch. `store` may
/// be null. Gradients go to the store while it accumulates, else to the parameters in their type;
/// there is no second derivative.
std::vector<at::Tensor> cast_and_concat(at::ScalarType type,
                                        const std::vector<std::vector<Parameter>>& groups,
                                        const StorePtr& store);
/// One parameter; without a store, Tensor::to().
at::Tensor cast(at::ScalarType type, const Parameter& parameter, const StorePtr& store);

/// Rows of an embedding in `type`, [.., width] for ids [..]. The padding row has no gradient.
at::Tensor embedding_lookup(const Parameter& weight, const at::Tensor& ids,
                            std::int64_t padding_row, at::ScalarType type, const StorePtr& store);

}  // namespace rotary::roformer
