// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls that must be rejected: with a message that names function, rule and value, and with nothing
// written.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotary/rope.h"

namespace rotary {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kHuge = std::int64_t{1} << 62;

inline void expect_rejected(const std::function<void()>& call, const std::string& function,
                            const std::string& rule, const std::string& value = "") {
  EXPECT_THAT(call, testing::ThrowsMessage<std::invalid_argument>(
                        testing::AllOf(testing::StartsWith("[" + function + "] "),
                                       testing::HasSubstr(rule), testing::HasSubstr(value))))
      << rule << value;
}

inline Frequencies half_radians(std::int64_t pairs = 2, std::int64_t axes = 1) {
  return {.pairs = pairs,
          .axes = axes,
          .values = std::vector<double>(static_cast<std::size_t>(pairs * axes), 0.5)};
}

/// A rope over heads of 4, and memory that must stay unchanged.
class RopeRejects : public testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 3;
  static constexpr std::int64_t kHeads = 2;
  static constexpr std::int64_t kHeadDim = 4;

  void TearDown() override {
    EXPECT_EQ(x_, std::vector<float>(kSize, kInput));
    EXPECT_EQ(y_, std::vector<float>(kSize, kOutput));
  }

  TensorView x() { return view(x_); }
  TensorView y() { return view(y_); }

  /// All three directions reject the arguments, in place and out of place.
  void rejects(const TensorView& in, const TensorView& out, const Positions& positions,
               const std::string& rule, const std::string& value = "") const {
    expect_rejected([&] { rope_.rotate(in, out, positions); }, "rotate", rule, value);
    expect_rejected([&] { rope_.unrotate(in, out, positions); }, "unrotate", rule, value);
    expect_rejected([&] { rope_.adjoint(in, out, positions); }, "adjoint", rule, value);
  }
  void rejects(const TensorView& tensor, const std::string& rule, const std::string& value = "",
               const Positions& positions = Positions::range()) const {
    expect_rejected([&] { rope_.rotate(tensor, positions); }, "rotate", rule, value);
    expect_rejected([&] { rope_.unrotate(tensor, positions); }, "unrotate", rule, value);
    expect_rejected([&] { rope_.adjoint(tensor, positions); }, "adjoint", rule, value);
  }
  void rejects(const Positions& positions, const std::string& rule, const std::string& value = "") {
    rejects(x(), rule, value, positions);
    rejects(x(), y(), positions, rule, value);
  }

  const Rope& rope() const { return rope_; }

  /// Positions of the tokens in a tensor's memory, from element `at` of its 24 on.
  static Positions ids_inside(const TensorView& tensor, std::int64_t at) {
    const auto* first = static_cast<const float*>(tensor.data) + at;
    return Positions::ids(ConstTensorView::contiguous(first, DType::kFloat32, {kTokens}));
  }

 private:
  static constexpr std::size_t kSize = 64;
  static constexpr float kInput = 0.5f;
  static constexpr float kOutput = -7.0f;

  static TensorView view(std::vector<float>& memory) {
    return TensorView::contiguous(memory.data(), DType::kFloat32, {kTokens, kHeads, kHeadDim});
  }

  Rope rope_{half_radians(), {.head_dim = kHeadDim, .pairing = Pairing::kHalf}};
  std::vector<float> x_ = std::vector<float>(kSize, kInput);
  std::vector<float> y_ = std::vector<float>(kSize, kOutput);
};

}  // namespace rotary
