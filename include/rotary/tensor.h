// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Views of memory that the caller owns.
///
///   std::vector<float> q(tokens * heads * 128);
///   auto view = rotary::TensorView::contiguous(q.data(), rotary::DType::kFloat32,
///                                              {tokens, heads, 128});
///
/// A view is small: copying it copies no data and never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace rotary {

/// Element types. float16 is IEEE binary16, bfloat16 the upper half of a float32. The 8-bit types
/// are those of the Open Compute Project, for outputs on CUDA and for caches (kv_cache.h): e4m3 has
/// no infinity and a maximum of 448, e5m2 a maximum of 57344. int8 is for caches only.
enum class DType : std::uint8_t {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kInt32,
  kInt64,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt8
};

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kInt8:
      return 1;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
  }
  return 0;
}
/// "float32", "bfloat16", ...
std::string_view name_of(DType dtype) noexcept;
constexpr bool is_floating_point(DType dtype) noexcept {
  return dtype != DType::kInt32 && dtype != DType::kInt64 && dtype != DType::kInt8;
}
constexpr bool is_float8(DType dtype) noexcept {
  return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
}

enum class DeviceType : std::uint8_t { kCpu, kCuda };

/// The device that holds the memory.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr int kMaxRank = 4;
using Dims = std::array<std::int64_t, kMaxRank>;

/// A pointer with a shape. `strides` count elements, not bytes; they may be 0 or negative. Only the
/// first `rank` entries of shape and strides are used.
template <typename Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  Dims shape{};
  Dims strides{};
  Device device{};

  /// Row-major, contiguous. Throws std::invalid_argument for more than kMaxRank dimensions or
  /// a negative one.
  static BasicTensorView contiguous(Void* data, DType dtype,
                                    std::initializer_list<std::int64_t> shape, Device device = {});

  std::int64_t num_elements() const noexcept {
    std::uint64_t count = 1;  // wraps for impossible sizes, which calls reject
    for (int i = 0; i < rank; ++i) {
      count *= static_cast<std::uint64_t>(shape[static_cast<std::size_t>(i)]);
    }
    return static_cast<std::int64_t>(count);
  }

  /// A writable view converts to a read-only one.
  operator BasicTensorView<const void>() const noexcept {
    return {data, dtype, rank, shape, strides, device};
  }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

extern template struct BasicTensorView<void>;
extern template struct BasicTensorView<const void>;

}  // namespace rotary
