// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reads positions of any kind, token by token.
#pragma once

#include <cstdint>

#include "rotary/positions.h"

namespace rotary::internal {

/// The position of one token on one axis.
struct Position {
  std::int64_t integer = 0;
  double real = 0.0;  // the position, also if it is an integer
  bool is_real = false;
};

/// Entry i of a row of int32 or int64 in host memory.
std::int64_t integer_at(const ConstTensorView& row, std::int64_t i) noexcept;

/// For one call on one thread: it remembers the current packed sequence.
class PositionReader {
 public:
  explicit PositionReader(const Positions& positions) noexcept : positions_(positions) {}
  Position at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept;

 private:
  const Positions& positions_;
  std::int64_t sequence_ = 0;  // of the token read last, kind kPacked
};

}  // namespace rotary::internal
