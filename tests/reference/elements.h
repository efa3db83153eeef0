// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A buffer of elements of any floating-point type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "reference/float8.h"
#include "rotary/tensor.h"
#include "support/half.h"

namespace rotary::reference {

class Elements {
 public:
  Elements(DType dtype, std::size_t count)
      : dtype_(dtype),
        size_(size_of(dtype)),
        count_(count),
        words_((count * size_of(dtype) + 7) / 8) {}

  DType dtype() const { return dtype_; }
  std::size_t size() const { return count_; }
  /// Address of element `offset`.
  void* data(std::size_t offset = 0) { return bytes() + offset * size_; }
  const void* data(std::size_t offset = 0) const { return bytes() + offset * size_; }
  std::size_t size_in_bytes() const { return count_ * size_; }

  /// The bits of an element, for exact comparisons.
  std::uint64_t bits(std::size_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes() + i * size_, size_);
    return bits;
  }
  double get(std::size_t i) const {
    switch (dtype_) {
      case DType::kFloat16:
        return static_cast<double>(internal::from_float16(load<std::uint16_t>(i)));
      case DType::kBFloat16:
        return static_cast<double>(internal::from_bfloat16(load<std::uint16_t>(i)));
      case DType::kFloat32:
        return static_cast<double>(load<float>(i));
      case DType::kFloat8E4M3:
      case DType::kFloat8E5M2:
        return from_float8(dtype_, load<std::uint8_t>(i));
      default:
        return load<double>(i);
    }
  }
  /// Rounds to the type.
  void set(std::size_t i, double value) {
    switch (dtype_) {
      case DType::kFloat16:
        return store(i, internal::to_float16(static_cast<float>(value)));
      case DType::kBFloat16:
        return store(i, internal::to_bfloat16(static_cast<float>(value)));
      case DType::kFloat32:
        return store(i, static_cast<float>(value));
      case DType::kFloat8E4M3:
      case DType::kFloat8E5M2:
        return store(i, to_float8(dtype_, static_cast<float>(value)));
      default:
        return store(i, value);
    }
  }

  /// Copies the bits of an element from a buffer of the same type.
  void copy(std::size_t i, const Elements& from) {
    std::memcpy(bytes() + i * size_, from.bytes() + i * size_, size_);
  }

  friend bool operator==(const Elements&, const Elements&) = default;

 private:
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words_.data()); }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(words_.data()); }
  template <typename T>
  T load(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  void store(std::size_t i, T value) {
    std::memcpy(bytes() + i * sizeof(T), &value, sizeof(T));
  }

  DType dtype_;
  std::size_t size_;  // of one, in bytes
  std::size_t count_;
  std::vector<std::uint64_t> words_;
};

}  // namespace rotary::reference
