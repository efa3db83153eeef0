// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// q and k of one shape and type, what is done to them, and what that is compared with.
#pragma once

#include <cstdint>

#include "bench/measure/buffer.h"
#include "bench/measure/shape.h"
#include "rotary/rope.h"
#include "rotary/tensor.h"

namespace rotary::measure {

/// All candidates work on the same memory: q and k are read, and the result goes there (in place)
/// or to other memory.
class Workbench {
 public:
  Workbench(const Shape& shape, DType dtype);

  const Shape& shape() const noexcept { return shape_; }
  DType dtype() const noexcept { return dtype_; }
  /// Read once and written once by every candidate.
  std::int64_t bytes() const noexcept;

  TensorView q() const { return view(q_.data(), shape_.q_heads); }
  TensorView k() const { return view(k_.data(), shape_.k_heads); }
  /// Where the results go; q and k themselves for kInPlace.
  TensorView q_out(Placement placement) const {
    return view(place(q_, q_out_, placement), shape_.q_heads);
  }
  TensorView k_out(Placement placement) const {
    return view(place(k_, k_out_, placement), shape_.k_heads);
  }

  /// memcpy of q and k to q_out and k_out, which are elsewhere.
  void copy(Placement placement, int threads) const;
  /// Multiplies q and k by one, which the compiler does not know to be one. 16-bit types are
  /// multiplied as the float32 that two of them make: the same bytes, and no conversion.
  void scale(Placement placement, int threads) const;

 private:
  TensorView view(std::byte* data, std::int64_t heads) const;
  static std::byte* place(const Buffer& in, const Buffer& out, Placement placement) noexcept;

  Shape shape_;
  DType dtype_;
  Buffer q_;
  Buffer k_;
  Buffer q_out_;
  Buffer k_out_;
};

/// One call of the library, as a user would write it. The memory of the workbench must outlive it.
class Rotation {
 public:
  Rotation(const Workbench& bench, const Variant& variant, int threads);

  void operator()() const;

 private:
  TensorView q_, k_, q_out_, k_out_;
  Placement placement_;
  std::int64_t first_;
  Rope rope_;
};

}  // namespace rotary::measure
