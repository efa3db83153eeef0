// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Addresses of the heads of one token, over all operands of a launch.
#pragma once

#include <cstdint>

#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Input or output of one head.
template <typename Pointer>
struct Head {
  Pointer data;                 // [head_dim]
  std::int64_t element_stride;  // in bytes
};

/// The heads of the token [batch, token]. Base pointers are computed once and selected by
/// comparison, without a branch; operands that the launch does not have are never dereferenced.
class TokenHeads {
 public:
  __device__ __forceinline__ TokenHeads(const KernelParams& p, std::uint32_t batch,
                                        std::uint32_t token)
      : p_(p) {
#pragma unroll
    for (int k = 0; k < kOperandsPerLaunch; ++k) {
      const OperandParams& o = p.operands[k];
      in_[k] = static_cast<const char*>(o.in) + (batch * o.in_batch + token * o.in_token);
      out_[k] = static_cast<char*>(o.out) + (batch * o.out_batch + token * o.out_token);
    }
  }

  /// Head h, counted over all operands.
  __device__ __forceinline__ Head<const char*> in(std::int32_t h) const {
    return select<&OperandParams::in_head, &OperandParams::in_element>(in_, h);
  }
  __device__ __forceinline__ Head<char*> out(std::int32_t h) const {
    return select<&OperandParams::out_head, &OperandParams::out_element>(out_, h);
  }

  /// Scale of head h for 8-bit output.
  __device__ __forceinline__ float scale(std::int32_t h) const {
    const float* from = p_.operands[0].out_scale;
#pragma unroll
    for (int k = 1; k < kOperandsPerLaunch; ++k) {
      if (h >= p_.first_head[k]) from = p_.operands[k].out_scale;
    }
    return from == nullptr ? 1.0f : *from;
  }

 private:
  template <std::int64_t OperandParams::*kHeadStride, std::int64_t OperandParams::*kElementStride,
            typename Pointer>
  __device__ __forceinline__ Head<Pointer> select(const Pointer (&base)[kOperandsPerLaunch],
                                                  std::int32_t h) const {
    Head<Pointer> head{base[0], p_.operands[0].*kElementStride};
    std::int64_t stride = p_.operands[0].*kHeadStride;
    std::int32_t begin = 0;
#pragma unroll
    for (int k = 1; k < kOperandsPerLaunch; ++k) {
      const bool here = h >= p_.first_head[k];
      head.data = here ? base[k] : head.data;
      head.element_stride = here ? p_.operands[k].*kElementStride : head.element_stride;
      stride = here ? p_.operands[k].*kHeadStride : stride;
      begin = here ? p_.first_head[k] : begin;
    }
    head.data += (h - begin) * stride;
    return head;
  }

  const KernelParams& p_;
  const char* in_[kOperandsPerLaunch];
  char* out_[kOperandsPerLaunch];
};

}  // namespace rotary::internal::cuda
