// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_norm_gradient.cuh"

namespace rotary::internal::cuda {

cudaError_t norm_gradient(NormGradientParams<TableParams>& params, cudaStream_t stream) noexcept {
  return launch_gradient<Angles::kTable>(params, stream);
}

}  // namespace rotary::internal::cuda
