// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Positions of any kind, one by one.
#pragma once

#include <cstdint>

#include "rotary/positions.h"

namespace rotary::internal {

/// The position of one token on one axis, as the caller gave it.
struct Position {
  std::int64_t integer = 0;
  double real = 0.0;  // the position whatever its type
  bool is_real = false;
};

/// Entry i of a row of int32 or int64 in host memory.
std::int64_t integer_at(const ConstTensorView& row, std::int64_t i) noexcept;

/// Lives for one call on one thread: it remembers where it is in packed sequences.
class PositionReader {
 public:
  explicit PositionReader(const Positions& positions) noexcept : positions_(positions) {}
  Position at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept;

 private:
  const Positions& positions_;
  std::int64_t sequence_ = 0;  // of the token read last, kind kPacked
};

}  // namespace rotary::internal
