// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Results of the functions of python_calls.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "pytorch/stable/python_arguments.h"
#include "rotary/rope.h"

namespace rotary::torch::stable {

/// New tensors for the results, and the operands between them and the inputs.
struct Results {
  Results(const char* name, const std::vector<Input>& inputs, std::int64_t token_dim);

  std::vector<Tensor> tensors{};
  std::vector<Operand> operands{};

 private:
  TensorView new_result(const char* name, const Description& like, std::int64_t token_dim);
};

/// The inputs as operands in place.
std::vector<Operand> in_place(const char* name, const std::vector<Input>& tensors,
                              std::int64_t token_dim);

/// As Python's: one tensor, or a tuple.
PyObject* wrap(std::vector<Tensor>&& tensors);

/// Tensors that were written to, as the result of a call in place.
PyObject* written(PyObject* tuple);

}  // namespace rotary::torch::stable
