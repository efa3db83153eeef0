// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Python arrays as views, without copying, by DLPack or the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string_view>
#include <vector>

#include "rotary/operands.h"
#include "rotary/tensor.h"

namespace rotary::python {

namespace nb = nanobind;

using Array = nb::ndarray<>;
using ConstArray = nb::ndarray<nb::ro>;

/// The memory that views point to, held for as long as they are used.
struct Memory {
  std::vector<Array> written{};
  std::vector<ConstArray> read{};
};

/// `object` is an array, a DLPack capsule, or a tuple (array of as many bits, "bfloat16",
/// "float8_e4m3" or "float8_e5m2") for NumPy's extension types. Throws TypeError for anything else
/// and for read-only memory that is to be written, std::invalid_argument for a rank, type or device
/// that rotary does not have; `function` names the caller in messages.
TensorView writable(std::string_view function, nb::handle object, Memory& memory);
ConstTensorView readable(std::string_view function, nb::handle object, Memory& memory);

/// In place where `outs` is None; else from ins[i] to outs[i].
std::vector<Operand> operands_of(std::string_view function, const nb::tuple& ins, nb::handle outs,
                                 Memory& memory);

}  // namespace rotary::python
