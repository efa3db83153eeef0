// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/kernels/hopper/device.h"

namespace rotary::transformer::hopper {

int num_sms(int device) {
  constexpr int kHopper = 9;
  int major = 0;
  int minor = 0;
  int sms = 0;
  const bool known =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
  return known && major == kHopper && minor == 0 ? sms : 0;
}

}  // namespace rotary::transformer::hopper
