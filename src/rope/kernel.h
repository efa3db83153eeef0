// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The one door between Rope and the engines. An engine is handed pointers, sizes and tables that
// have been checked; it knows no model, no file and no error.
#pragma once

#include <cstdint>
#include <vector>

#include "rope/phase.h"
#include "rotary/frequencies.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/tensor.h"

namespace rotary::internal {

/// Which complex number multiplies a pair: z, 1/z or conj(z).
enum class Direction : std::uint8_t { kForward, kInverse, kAdjoint };

/// Frequencies in the forms in which angles are made from them; immutable, shared by all calls.
struct PhaseTable {
  Precision precision = Precision::kExact;
  std::int64_t pairs = 0;
  std::int64_t axes = 0;
  double scale = 1.0;
  std::vector<Turns> turns;    // [pairs x axes], kExact
  std::vector<float> radians;  // [pairs x axes], kReference
  std::vector<double> growth;  // [pairs x axes] or empty
  double growth_origin = 0.0;
};

PhaseTable make_phase_table(const Frequencies& frequencies, Precision precision);

/// One rotation of one tensor. Views have rank 4: [batch, tokens, heads, head_dim].
struct Job {
  const PhaseTable& phases;
  Direction direction = Direction::kForward;
  Pairing read = Pairing::kHalf;
  Pairing write = Pairing::kHalf;
  std::int64_t rotary_offset = 0;
  ConstTensorView in;
  TensorView out;
  const Positions& positions;
};

/// The position of one token on one axis, as the caller gave it.
struct Position {
  std::int64_t integer = 0;
  double real = 0.0;  // the position whatever its type
  bool is_real = false;
};

/// Reads positions of any kind. Lives for one call and walks packed sequences forward only once.
class PositionReader {
 public:
  explicit PositionReader(const Positions& positions) noexcept : positions_(positions) {}
  Position at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept;

 private:
  const Positions& positions_;
  std::size_t sequence_ = 0;  // of the token read last, kind kPacked
};

/// cos and sin of every pair of one token, times scale and growth, made for the direction.
/// `z` holds `pairs` entries.
template <typename T>
void make_rotations(const Job& job, PositionReader& reader, std::int64_t batch, std::int64_t token,
                    CosSin<T>* z) noexcept;

/// The scalar CPU engine.
void rotate_scalar(const Job& job);

}  // namespace rotary::internal
