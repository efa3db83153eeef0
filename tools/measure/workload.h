// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// q and k of one shape and type, with the rotation and the reference loops on them.
#pragma once

#include <cstdint>

#include "rotary/rope.h"
#include "rotary/tensor.h"
#include "rotary/write_order.h"
#include "tools/measure/buffer.h"
#include "tools/measure/shape.h"

namespace rotary::measure {

/// The memory that all candidates share: q and k, and results for out-of-place calls.
class Workload {
 public:
  Workload(const Shape& shape, DType dtype);

  const Shape& shape() const noexcept { return shape_; }
  DType dtype() const noexcept { return dtype_; }
  /// Bytes of q and k: read once and written once by every candidate.
  std::int64_t bytes() const noexcept;

  TensorView q() const { return view(q_.data(), shape_.q_heads); }
  TensorView k() const { return view(k_.data(), shape_.k_heads); }
  /// The destination; q and k themselves for kInPlace.
  TensorView q_out(Placement placement) const {
    return view(destination(q_, q_out_, placement), shape_.q_heads);
  }
  TensorView k_out(Placement placement) const {
    return view(destination(k_, k_out_, placement), shape_.k_heads);
  }

  /// memcpy of q and k to q_out and k_out; not for kInPlace.
  void copy(Placement placement, int threads) const;
  /// Multiplies q and k by a scalar (one, unknown to the compiler). Two elements of a 16-bit type
  /// are multiplied as one float32: the same bytes without conversions.
  void scale(Placement placement, int threads) const;

 private:
  TensorView view(std::byte* data, std::int64_t heads) const;
  static std::byte* destination(const Buffer& in, const Buffer& out, Placement placement) noexcept;

  Shape shape_;
  DType dtype_;
  Buffer q_;
  Buffer k_;
  Buffer q_out_;
  Buffer k_out_;
};

/// One public call of the library. The workload must outlive it.
class RotateCall {
 public:
  RotateCall(const Workload& workload, const Variant& variant, int threads,
             const WriteOrder& order = {});

  void operator()() const;

  /// The order in which the library writes the results.
  WriteOrder order() const;

 private:
  TensorView q_, k_, q_out_, k_out_;
  Placement placement_;
  std::int64_t first_;
  Rope rope_;
};

}  // namespace rotary::measure
