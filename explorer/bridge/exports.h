// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What the explorer page calls: C functions, exported from its WebAssembly.
///
/// Texts are UTF-8. A function that answers in text returns JSON: {"result": ...}, or
/// {"error": "the message that the command prints"}; it is valid until the next such call. Nothing
/// throws. One thread.
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): C.
#include <stdint.h>
// NOLINTEND(modernize-deprecated-headers)

#ifdef __cplusplus
extern "C" {
#endif

/// Opens the bytes of a file; the result is the number of the model.
const char* explorer_open(const char* bytes, int32_t length, const char* source);

/// Answers a request in JSON (calls.h).
const char* explorer_call(const char* request, int32_t length);

/// cos and sin of n positions, [n x axes], to [n x pairs] each. Returns 0, or 1 for an error, whose
/// text is explorer_error().
int32_t explorer_cos_sin(int32_t rope, const double* positions, int32_t n, double* cosines,
                         double* sines);

/// Scores of equal vectors, n offsets [n x axes] to [n]. Returns as above.
int32_t explorer_scores(int32_t rope, const double* offsets, int32_t n, double* scores);

const char* explorer_error(void);

#ifdef __cplusplus
}
#endif
