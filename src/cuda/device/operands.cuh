// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Where the heads of a token lie, in all operands of a launch.
#pragma once

#include <cstdint>

#include "cuda/params.h"

namespace rotary::internal::cuda {

/// What a thread wants to know of one side of a head.
template <typename Pointer>
struct Head {
  Pointer data;          // [head_dim]
  std::int64_t element;  // bytes from element to element
};

/// The token at `batch` and `token`. Pointers are made once and chosen by comparison: operands that
/// a launch does not have cost a few instructions and are never looked at.
class TokenHeads {
 public:
  __device__ __forceinline__ TokenHeads(const RotateParams& p, std::uint32_t batch,
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
    Head<const char*> head{in_[0], p_.operands[0].in_element};
    std::int64_t stride = p_.operands[0].in_head;
    std::int32_t begin = 0;
#pragma unroll
    for (int k = 1; k < kOperandsPerLaunch; ++k) {
      const bool here = h >= p_.first_head[k];
      head.data = here ? in_[k] : head.data;
      head.element = here ? p_.operands[k].in_element : head.element;
      stride = here ? p_.operands[k].in_head : stride;
      begin = here ? p_.first_head[k] : begin;
    }
    head.data += (h - begin) * stride;
    return head;
  }
  __device__ __forceinline__ Head<char*> out(std::int32_t h) const {
    Head<char*> head{out_[0], p_.operands[0].out_element};
    std::int64_t stride = p_.operands[0].out_head;
    std::int32_t begin = 0;
#pragma unroll
    for (int k = 1; k < kOperandsPerLaunch; ++k) {
      const bool here = h >= p_.first_head[k];
      head.data = here ? out_[k] : head.data;
      head.element = here ? p_.operands[k].out_element : head.element;
      stride = here ? p_.operands[k].out_head : stride;
      begin = here ? p_.first_head[k] : begin;
    }
    head.data += (h - begin) * stride;
    return head;
  }

  /// What head h is multiplied by before it becomes 8 bits.
  __device__ __forceinline__ float scale(std::int32_t h) const {
    const float* from = p_.operands[0].out_scale;
#pragma unroll
    for (int k = 1; k < kOperandsPerLaunch; ++k) {
      if (h >= p_.first_head[k]) from = p_.operands[k].out_scale;
    }
    return from == nullptr ? 1.0f : *from;
  }

 private:
  const RotateParams& p_;
  const char* in_[kOperandsPerLaunch];
  char* out_[kOperandsPerLaunch];
};

}  // namespace rotary::internal::cuda
