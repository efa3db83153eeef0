// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The linear maps that operators apply.
#pragma once

namespace rotary::torch {

/// Each multiplies pairs by a complex number; z is the rope's at the token's position.
enum class RotationOp {
  kRotate,           // z
  kAdjoint,          // conj(z)
  kUnrotate,         // 1 / z
  kUnrotateAdjoint,  // conj(1 / z)
  kShift,            // z at a distance, without the scale
  kShiftAdjoint,     // its conjugate
};

/// The map of the backward pass.
constexpr RotationOp transpose(RotationOp op) noexcept {
  switch (op) {
    case RotationOp::kRotate:
      return RotationOp::kAdjoint;
    case RotationOp::kAdjoint:
      return RotationOp::kRotate;
    case RotationOp::kUnrotate:
      return RotationOp::kUnrotateAdjoint;
    case RotationOp::kUnrotateAdjoint:
      return RotationOp::kUnrotate;
    case RotationOp::kShift:
      return RotationOp::kShiftAdjoint;
    case RotationOp::kShiftAdjoint:
      return RotationOp::kShift;
  }
  return op;
}

/// Positions are distances, and a single one is broadcast over tokens.
constexpr bool is_shift(RotationOp op) noexcept {
  return op == RotationOp::kShift || op == RotationOp::kShiftAdjoint;
}

constexpr const char* name_of(RotationOp op) noexcept {
  switch (op) {
    case RotationOp::kRotate:
      return "rotate";
    case RotationOp::kAdjoint:
      return "adjoint";
    case RotationOp::kUnrotate:
      return "unrotate";
    case RotationOp::kUnrotateAdjoint:
      return "unrotate_adjoint";
    case RotationOp::kShift:
      return "shift";
    case RotationOp::kShiftAdjoint:
      return "shift_adjoint";
  }
  return "";
}

}  // namespace rotary::torch
