// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Helpers that compare the C API with the C++ API.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rotary/rope.h"
#include "rotary/rotary_c.h"
#include "rotary/table.h"

namespace rotary {

inline const std::string kRoot = ROTARY_TESTS_DIR "/..";
inline const std::string kModels = kRoot + "/examples/models/";

/// Owning handles.
struct Free {
  void operator()(rotary_model* model) const { rotary_model_free(model); }
  void operator()(rotary_rope* rope) const { rotary_rope_free(rope); }
  void operator()(rotary_table* table) const { rotary_table_free(table); }
};
using CModel = std::unique_ptr<rotary_model, Free>;
using CRope = std::unique_ptr<rotary_rope, Free>;
using CTable = std::unique_ptr<rotary_table, Free>;

#define ROTARY_EXPECT_OK(call) EXPECT_EQ(call, ROTARY_OK) << rotary_last_error()

/// The call failed with that status, and its text has these parts.
inline void expect_failed(rotary_status status, rotary_status expected, const std::string& begin,
                          const std::string& part = "") {
  EXPECT_EQ(status, expected) << rotary_last_error();
  EXPECT_THAT(rotary_last_error(),
              testing::AllOf(testing::StartsWith(begin), testing::HasSubstr(part)));
}

/// The call was rejected with the message with which the C++ API rejects `same`.
inline void expect_same_error(rotary_status status, const std::function<void()>& same,
                              rotary_status expected = ROTARY_INVALID_ARGUMENT) {
  EXPECT_EQ(status, expected);
  try {
    same();
    ADD_FAILURE() << "the C++ API accepts what C rejects: " << rotary_last_error();
  } catch (const std::exception& error) {
    EXPECT_STREQ(rotary_last_error(), error.what());
  }
}

inline CModel read_model(const std::string& name) {
  rotary_model* model = nullptr;
  ROTARY_EXPECT_OK(rotary_model_read((kModels + name).c_str(), &model));
  return CModel(model);
}

/// The view as a struct of C.
inline rotary_tensor c_tensor(const TensorView& view) {
  rotary_tensor tensor = rotary_tensor_contiguous(view.data, static_cast<int>(view.dtype) + 1,
                                                  view.rank, view.shape.data());
  for (std::size_t i = 0; i < kMaxRank; ++i) tensor.strides[i] = view.strides[i];
  tensor.device_type = static_cast<int>(view.device.type);
  tensor.device_index = view.device.index;
  return tensor;
}

/// A contiguous row of integers as a struct of C.
template <typename T>
rotary_tensor c_row(std::vector<T>& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const rotary_dtype dtype = sizeof(T) == 4 ? ROTARY_DTYPE_INT32 : ROTARY_DTYPE_INT64;
  return rotary_tensor_contiguous(values.data(), dtype, 1, &size);
}

/// Bytes that are finite, varied values of any floating-point type.
inline std::vector<std::byte> some_numbers(std::size_t elements, DType dtype, unsigned seed = 1) {
  std::vector<std::byte> bytes(elements * size_of(dtype));
  std::uint32_t state = seed;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  // The last byte has the sign and the top of the exponent: keep numbers near 1.
  const std::size_t size = size_of(dtype);
  for (std::size_t i = size; i <= bytes.size(); i += size) {
    bytes[i - 1] = (bytes[i - 1] & std::byte{0x80}) | std::byte{0x3c};
  }
  return bytes;
}

/// q of 3 heads and k of 2, [batch 2, tokens 5, heads, 8]: memory and views.
struct QueryAndKey {
  static constexpr std::int64_t kBatch = 2;
  static constexpr std::int64_t kTokens = 5;
  static constexpr std::int64_t kHeadDim = 8;

  explicit QueryAndKey(DType dtype = DType::kFloat32, unsigned seed = 1)
      : type(dtype),
        q_bytes(
            some_numbers(static_cast<std::size_t>(kBatch * kTokens * 3 * kHeadDim), dtype, seed)),
        k_bytes(some_numbers(static_cast<std::size_t>(kBatch * kTokens * 2 * kHeadDim), dtype,
                             seed + 100)) {}

  TensorView q() { return view(q_bytes, 3); }
  TensorView k() { return view(k_bytes, 2); }
  /// Both as structs of C.
  std::vector<rotary_tensor> tensors() { return {c_tensor(q()), c_tensor(k())}; }
  bool operator==(const QueryAndKey&) const = default;

  DType type;
  std::vector<std::byte> q_bytes;
  std::vector<std::byte> k_bytes;

 private:
  TensorView view(std::vector<std::byte>& bytes, std::int64_t heads) const {
    return TensorView::contiguous(bytes.data(), type, {kBatch, kTokens, heads, kHeadDim});
  }
};

}  // namespace rotary
