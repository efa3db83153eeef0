// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Fixture of the tests of rejected calls: a rope, tensors that must stay unchanged, and checks of
// the error.
#pragma once

#include <limits>
#include <string>

#include "c/c_testing.h"

namespace rotary {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class CApiRejects : public testing::Test {
 protected:
  CApiRejects() {
    const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
    rotary_rope* made = nullptr;
    ROTARY_EXPECT_OK(rotary_rope_from_theta(8, 100.0, &layout, nullptr, &made));
    c_.reset(made);
  }
  void TearDown() override { EXPECT_TRUE(memory_ == QueryAndKey()); }

  const rotary_rope* c() const { return c_.get(); }
  const Rope& cpp() const { return cpp_; }
  TensorView q() { return memory_.q(); }
  TensorView k() { return memory_.k(); }

  rotary_status rotate(const rotary_tensor& tensor) {
    const rotary_positions positions = rotary_positions_range(1);
    return rotary_rope_rotate(c(), &tensor, nullptr, 1, &positions);
  }
  rotary_status rotate(const rotary_positions& positions) {
    const rotary_tensor tensor = c_tensor(q());
    return rotary_rope_rotate(c(), &tensor, nullptr, 1, &positions);
  }
  /// Expects rotate to reject the argument with a message of the C API.
  template <typename T>
  void rejects(const T& argument, const std::string& text) {
    expect_failed(rotate(argument), ROTARY_INVALID_ARGUMENT, "[rotary_rope_rotate] " + text);
  }

 private:
  QueryAndKey memory_;
  CRope c_;
  Rope cpp_{make_frequencies({.rotary_dim = 8, .theta = 100}),
            {.head_dim = 8, .pairing = Pairing::kHalf}};
};

/// Expects "[function] argument must not be NULL".
inline void null(rotary_status status, const std::string& function, const std::string& argument) {
  EXPECT_EQ(status, ROTARY_INVALID_ARGUMENT);
  EXPECT_EQ(rotary_last_error(), "[" + function + "] " + argument + " must not be NULL");
}
#define ROTARY_EXPECT_NULL(function, argument, ...) null(function(__VA_ARGS__), #function, argument)

}  // namespace rotary
