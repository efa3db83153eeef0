// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tables of cos and sin on the host and on the device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda/device_memory.h"
#include "rope/expect_rotation.h"
#include "rotary/table.h"

namespace rotary {

/// Memory layout of a table.
enum class TableLayout : std::uint8_t {
  kContiguous,
  kFused,    // [rows, 2, width]: cos and sin of a row adjacent
  kStrided,  // element stride 3, negative row stride
};

/// cos and sin [batch, rows, width] in host memory, and the same on the device.
class Table {
 public:
  /// batch 0: rank 2.
  Table(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t width, TableLayout layout)
      : memory_(dtype,
                static_cast<std::size_t>(6 * std::max<std::int64_t>(batch, 1) * rows * width)) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      memory_.set(i, 1.1 * std::cos(0.37 * static_cast<double>(i)));
    }
    const std::int64_t size = rows * width;
    const std::int64_t all = std::max<std::int64_t>(batch, 1) * size;
    Dims strides = {size, width, 1, 0};
    std::int64_t cos_at = 0;
    std::int64_t sin_at = all;
    if (layout == TableLayout::kFused) {
      strides = {2 * size, 2 * width, 1, 0};
      sin_at = width;
    } else if (layout == TableLayout::kStrided) {
      strides = {3 * size, -3 * width, 3, 0};
      cos_at = 3 * (rows - 1) * width;
      sin_at = cos_at + 3 * all;
    }
    const auto view = [&](std::int64_t first) {
      const void* data = memory_.data(static_cast<std::size_t>(first));
      if (batch > 0) return ConstTensorView{data, dtype, 3, {batch, rows, width}, strides, {}};
      return ConstTensorView{data, dtype, 2, {rows, width}, {strides[1], strides[2]}, {}};
    };
    host_ = {view(cos_at), view(sin_at)};
  }
  const CosSinTable& host() const { return host_; }

 private:
  reference::Elements memory_;
  CosSinTable host_;
};

/// A TableRope on the host, and one on the device.
class Ropes {
 public:
  Ropes(const CosSinTable& table, const HeadLayout& layout, TableWidth width)
      : cos_(table.cos),
        sin_(table.sin),
        host_(table, layout, width),
        device_({cos_.view(), sin_.view()}, layout, width) {}

  const TableRope& on_host() const { return host_; }
  const TableRope& on_device() const { return device_; }
  /// The rope of the tensors' device.
  const TableRope& of(const TensorView& x) const {
    return x.device.type == DeviceType::kCuda ? device_ : host_;
  }

 private:
  DeviceView cos_;
  DeviceView sin_;
  TableRope host_;
  TableRope device_;
};

}  // namespace rotary
