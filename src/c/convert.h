// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Conversion between the structs of the C API and the C++ API. Checks only what is specific to C:
// NULL, struct versions, invalid enumerators. The C++ API checks the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "c/call.h"
#include "rotary/cuda.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/rope.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary::c_api {

HeadLayout to_layout(const Call& call, const rotary_head_layout* given);
Recipe to_recipe(const Call& call, const rotary_recipe* given);
/// With the output pairing filled in.
rotary_head_layout from_layout(const HeadLayout& layout) noexcept;

/// With more pairs than a head has, which Rope rejects, no values are read: a caller that passes
/// rotary_dim as the number of pairs does not have them.
Frequencies to_frequencies(const Call& call, const rotary_frequencies* given,
                           std::int64_t head_dim);
/// Points into the argument.
rotary_frequencies from_frequencies(const Frequencies& frequencies) noexcept;

/// NULL: the defaults.
rotary_threads read_threads(const Call& call, const rotary_threads* given);
Threads to_threads(const rotary_threads& threads);

/// NULL: the defaults. `threads` is read from given->threads.
struct Options {
  RopeOptions rope{};
  rotary_threads threads{};
};
Options to_options(const Call& call, const rotary_rope_options* given);

HeadNorm to_norm(const Call& call, const rotary_norm* given);

Stream to_stream(const Call& call, void* handle, std::int32_t overlap);

/// Throws for a tensor with out_scale, which only outputs of rotations use: ignoring it would hide
/// an error.
TensorView to_tensor(const Call& call, const rotary_tensor* given, const Name& name);

/// An array of the caller's tensors, read one by one.
class TensorArray {
 public:
  TensorArray(const Call& call, const rotary_tensor* array, const Name& name);
  TensorView operator[](std::size_t index) const;
  /// An empty view if data is NULL; other members are then ignored.
  TensorView if_given(std::size_t index) const;
  /// The output of a rotation.
  struct Result {
    TensorView view{};
    const float* scale = nullptr;
  };
  Result result(std::size_t index) const;

 private:
  rotary_tensor read(std::size_t index) const;

  const Call& call_;
  const rotary_tensor* array_;
  std::uint32_t struct_size_;
  Name name_;
};

/// Throws unless one call takes that many tensors.
std::size_t check_count(const Call& call, std::int64_t count);

/// The operands of a call, without allocation. `out` NULL: in place.
class OperandList {
 public:
  OperandList(const Call& call, const rotary_tensor* in, const rotary_tensor* out,
              std::int64_t count);
  std::span<const Operand> list() const noexcept { return {list_, size_}; }

 private:
  std::size_t size_ = 0;
  union {  // not initialised: an Operand has no default constructor
    Operand list_[kMaxOperands];
  };
};

Positions to_positions(const Call& call, const rotary_positions* given, const Name& name);

}  // namespace rotary::c_api
