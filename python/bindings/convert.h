// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The plain data of recipe.h, pairing.h and model.h, from and to the dataclasses of the package
// (rotary/recipe.py, layout.py, model.py). Both have the same names.
#pragma once

#include <nanobind/nanobind.h>

#include "rotary/model.h"
#include "rotary/pairing.h"
#include "rotary/recipe.h"
#include "rotary/rope.h"

namespace rotary::python {

namespace nb = nanobind;

/// Throw TypeError for a field of another type, std::invalid_argument for a word that is not one of
/// an enumeration's.
Recipe recipe_of(nb::handle recipe);
HeadLayout layout_of(nb::handle layout);
ModelRope model_rope_of(nb::handle rope);
RopeOptions options_of(nb::handle options);

nb::object to_python(const HeadLayout& layout);
nb::object to_python(const Model& model);
nb::object to_python(const Recipe& recipe);

}  // namespace rotary::python
