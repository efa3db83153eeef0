// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Ropes of the C API and of C++, and checks that they agree.
#pragma once

#include "c/c_testing.h"

namespace rotary {

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                    DType::kFloat16};

/// Three axes, growth, a scale, and different input and output pairings.
inline Frequencies rich_frequencies() {
  Frequencies f{.pairs = 3, .axes = 2, .values = {1, 0, 0.25, -0.5, 0, 0.0625}};
  f.scale = 1.125;
  f.softmax_scale = 1.5;
  f.growth = {0.01, 0, -0.02, 0.005, 0, 0.001};
  f.growth_origin = 2;
  return f;
}
inline HeadLayout rich_layout() {
  return {.head_dim = 8,
          .rotary_offset = 1,
          .pairing = Pairing::kInterleaved,
          .output_pairing = Pairing::kHalf};
}

inline CRope c_rope(const Frequencies& f, const HeadLayout& layout,
                    const rotary_rope_options* options = nullptr) {
  rotary_frequencies frequencies = rotary_frequencies_init(f.values.data(), f.pairs, f.axes);
  frequencies.scale = f.scale;
  frequencies.softmax_scale = f.softmax_scale;
  frequencies.growth = f.growth.empty() ? nullptr : f.growth.data();
  frequencies.growth_origin = f.growth_origin;
  rotary_head_layout head =
      rotary_head_layout_init(layout.head_dim, static_cast<int>(*layout.pairing) + 1);
  head.rotary_offset = layout.rotary_offset;
  if (layout.output_pairing) head.output_pairing = static_cast<int>(*layout.output_pairing) + 1;
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&frequencies, &head, options, &rope));
  return CRope(rope);
}

inline Frequencies plain_frequencies() { return make_frequencies({.rotary_dim = 8, .theta = 100}); }
inline HeadLayout plain_layout() { return {.head_dim = 8, .pairing = Pairing::kHalf}; }

// ---- Operations ---------------------------------------------------------------------------------

using Method = void (Rope::*)(const Operands&, const Positions&, Stream) const;
struct Operation {
  const char* name;
  decltype(&rotary_rope_rotate) c;
  Method cpp;
};
inline const Operation kOperations[] = {{"rotate", rotary_rope_rotate, &Rope::rotate},
                                        {"unrotate", rotary_rope_unrotate, &Rope::unrotate},
                                        {"adjoint", rotary_rope_adjoint, &Rope::adjoint},
                                        {"shift", rotary_rope_shift, &Rope::shift}};

/// Every operation, in place and out of place, of q and k in one call.
inline void expect_same(const rotary_rope* c, const Rope& cpp, const rotary_positions& c_positions,
                        const Positions& positions, DType dtype = DType::kFloat32) {
  for (const auto& [name, c_operation, method] : kOperations) {
    SCOPED_TRACE(name);
    QueryAndKey expected(dtype);
    (cpp.*method)({expected.q(), expected.k()}, positions, {});
    EXPECT_FALSE(expected == QueryAndKey(dtype));

    QueryAndKey in_place(dtype);
    const auto both = in_place.tensors();
    ROTARY_EXPECT_OK(c_operation(c, both.data(), nullptr, 2, &c_positions));
    EXPECT_TRUE(in_place == expected);

    QueryAndKey in(dtype);
    QueryAndKey out(dtype, 7);
    ROTARY_EXPECT_OK(c_operation(c, in.tensors().data(), out.tensors().data(), 2, &c_positions));
    EXPECT_TRUE(out == expected);
    EXPECT_TRUE(in == QueryAndKey(dtype));
  }
}

}  // namespace rotary
