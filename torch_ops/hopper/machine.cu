// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is asked of CUDA's runtime and of its driver.

#include "hopper/maps.h"
#include "hopper/processors.h"

namespace rotary::torch::hopper {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's, found without linking it.
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

/// A thread that has called the runtime for nothing yet, as autograd's may, has no context.
bool bind_context() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
}

}  // namespace

int processors_of(int device) {
  constexpr int kHopper = 9;
  int major = 0;
  int minor = 0;
  int processors = 0;
  const bool known =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
  return known && major == kHopper && minor == 0 ? processors : 0;
}

bool encode_map(CUtensorMap& map, void* data, int dimensions, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* box) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return false;
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const auto encoded = [&] {
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(dimensions), data,
                  sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  return encoded() || (bind_context() && encoded());
}

}  // namespace rotary::torch::hopper
