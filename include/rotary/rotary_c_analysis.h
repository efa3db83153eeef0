// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The C API of what `rotary inspect`, `decay`, `bounds`, `precision`, `diff` and `plan` tell.
///
///   char* json = NULL;
///   if (rotary_rope_inspect(rope, &json) == ROTARY_OK) puts(json);   // wavelengths, warnings, ...
///   rotary_text_free(json);
///   const double distances[] = {0, 1, 10, 100, 1000};
///   double scores[5];
///   rotary_rope_scores(rope, distances, 5, scores);   // of equal vectors, by their distance
///
/// Curves are numbers in arrays of the caller, documents are JSON in UTF-8, which the caller frees.
/// Documents have the members that the command prints with --json; further ones may be added. Their
/// sentences are for people, and other releases may word them differently. Conventions are those of
/// rotary_c.h; all functions allocate. All: since version 5.
#pragma once

#include "rotary/rotary_c.h"

// NOLINTBEGIN: C, also where a C++ tool reads it.
#ifdef __cplusplus
extern "C" {
#endif

// ---- Models as others read them -----------------------------------------------------------------

/// The model as another framework reads its config.json (dialect.h): "vllm@0.32", or "vllm" for its
/// newest version; rotary_dialect_list() has the names. `model` must have been read from a
/// config.json.
ROTARY_C_API rotary_status rotary_model_in_dialect(const rotary_model* model, const char* dialect,
                                                   rotary_model** result);

/// The model with another recipe for the rope `name` (as in rotary_model_find_rope), for what if:
/// layout, axes and contexts stay those of the model.
ROTARY_C_API rotary_status rotary_model_with_recipe(const rotary_model* model, const char* name,
                                                    const rotary_recipe* recipe,
                                                    rotary_model** result);

// ---- Documents ----------------------------------------------------------------------------------

/// Frees a text that a function below returned; NULL is allowed.
ROTARY_C_API void rotary_text_free(char* text);

/// What `rotary inspect` says of the rope. "rope" is the element of "ropes" of its --json, which
/// rotary_model_parse_config() reads again; the table and sentences for people are in "properties"
/// ([name, value, meaning]) and "sentences"; "wavelengths", "unscaled" (without the scaling) and
/// "pair_axes" have one entry per pair; "dialect" is null but for ropes of a dialect.
///
/// This and the next two need to know the recipe: they reject ropes that were made from
/// frequencies, or by rotary_rope_with_inverse_growth.
ROTARY_C_API rotary_status rotary_rope_inspect(const rotary_rope* rope, char** json);

/// Which contexts the rope serves: `rotary bounds --json` for `context` positions, 1 to 2^24.
/// `smallest_base`: 1 to search for it too, which takes up to a second for 131,072 positions; 0:
/// "smallest_base" is null. Takes time proportional to the context.
ROTARY_C_API rotary_status rotary_rope_bounds(const rotary_rope* rope, int64_t context,
                                              int32_t smallest_base, char** json);

/// How two ropes differ: the element of "ropes" of `rotary diff --json`.
ROTARY_C_API rotary_status rotary_rope_diff(const rotary_rope* a, const rotary_rope* b,
                                            char** json);

/// What to type for `context` tokens: `rotary plan --json`. `name` as in rotary_model_find_rope;
/// `engine`: "hf", "vllm", "sglang" or "llama.cpp"; NULL: all. `model` must have been read from a
/// config.json.
ROTARY_C_API rotary_status rotary_model_plan(const rotary_model* model, const char* name,
                                             int64_t context, const char* engine, char** json);

/// All dialects: a list of "name", "source", "evidence" and how they round.
ROTARY_C_API rotary_status rotary_dialect_list(char** json);

// ---- Curves -------------------------------------------------------------------------------------

/// Scores of a query and an equal key at `count` offsets, [count x axes], to [count]:
/// relative_scores() of analysis.h. The scale on cos and sin is not part of it.
ROTARY_C_API rotary_status rotary_rope_scores(const rotary_rope* rope, const double* offsets,
                                              int64_t count, double* scores);

/// RoFormer's bound on scores, decay() of analysis.h, at `count` distances, to [count]. Needs one
/// axis; M-RoPE is taken as text has it, with one position on every axis.
ROTARY_C_API rotary_status rotary_rope_decay(const rotary_rope* rope, const double* distances,
                                             int64_t count, double* bound);

/// How cos and sin are made: AngleMethod of analysis.h.
enum {
  ROTARY_ANGLE_FLOAT32 = 0,
  ROTARY_ANGLE_BFLOAT16_TABLE = 1,
  ROTARY_ANGLE_BFLOAT16 = 2,
  ROTARY_ANGLE_FAST_MATH = 3,
};

/// The largest error over the pairs at `count` positions, at most 2^40 in magnitude: of cos or sin
/// to `values`, of the angle in radians to `angles`, the pair of the latter to `pairs`, [count]
/// each; `angles` and `pairs` may be NULL. Axes as for rotary_rope_decay.
ROTARY_C_API rotary_status rotary_rope_angle_errors(const rotary_rope* rope, int32_t method,
                                                    const int64_t* positions, int64_t count,
                                                    double* values, double* angles, int64_t* pairs);

#ifdef __cplusplus
}
#endif
// NOLINTEND
