// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/kernels/hopper/tensor_map.h"

namespace rotary::transformer::hopper {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, found at run time: libcuda is not linked.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return reinterpret_cast<Encode>(found);
}

/// A thread that has not called the runtime yet, as one of autograd's, has no current context.
bool bind_context() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
}

}  // namespace

bool make_tensor_map(CUtensorMap& map, void* data, int dimensions, const cuuint64_t* sizes,
                     const cuuint64_t* strides, const cuuint32_t* box) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return false;
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  const auto encoded = [&] {
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(dimensions), data,
                  sizes, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  return encoded() || (bind_context() && encoded());
}

}  // namespace rotary::transformer::hopper
