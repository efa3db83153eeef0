// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Functions of the C API that take or fill structs, for the explorer's JavaScript, which knows
/// numbers and addresses alone. It calls all others itself (explorer/page/engine.js).
#pragma once

#include "rotary/rotary_c_analysis.h"

// NOLINTBEGIN: C, also where a C++ tool reads it.
#ifdef __cplusplus
extern "C" {
#endif

/// The name of rope 0 ... count - 1; -1: of the one that rotary_model_find_rope() takes without a
/// name. NULL if there is none.
const char* explorer_rope_name(const rotary_model* model, int32_t index);

/// rotary_model_with_recipe() with a whole recipe as JSON.
rotary_status explorer_with_recipe(const rotary_model* model, const char* name, const char* recipe,
                                   rotary_model** result);

/// The frequencies of the rope, [pairs x axes]; NULL if it cannot be.
const double* explorer_frequencies(const rotary_rope* rope);

/// rotary_rope_cos_sin() of n positions, [n x axes], to [n x pairs] each.
rotary_status explorer_cos_sin(const rotary_rope* rope, double* positions, int32_t n,
                               double* cosines, double* sines);

#ifdef __cplusplus
}
#endif
// NOLINTEND
