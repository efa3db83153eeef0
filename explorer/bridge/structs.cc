// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explorer/bridge/structs.h"

const char* explorer_rope_name(const rotary_model* model, int32_t index) {
  rotary_model_rope rope = rotary_model_rope_init();
  const rotary_status status = index < 0 ? rotary_model_find_rope(model, nullptr, &rope)
                                         : rotary_model_get_rope(model, index, &rope);
  return status == ROTARY_OK ? rope.name : nullptr;
}

rotary_status explorer_with_recipe(const rotary_model* model, const char* name, const char* recipe,
                                   rotary_model** result) {
  rotary_recipe whole = rotary_recipe_init(0, 0.0);
  whole.scaling = recipe;
  return rotary_model_with_recipe(model, name, &whole, result);
}

const double* explorer_frequencies(const rotary_rope* rope) {
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  return rotary_rope_get_frequencies(rope, &f) == ROTARY_OK ? f.values : nullptr;
}

rotary_status explorer_cos_sin(const rotary_rope* rope, double* positions, int32_t n,
                               double* cosines, double* sines) {
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  if (const rotary_status status = rotary_rope_get_frequencies(rope, &f); status != ROTARY_OK) {
    return status;
  }
  const int64_t ids_shape[] = {f.axes, n};
  rotary_tensor ids = rotary_tensor_contiguous(positions, ROTARY_DTYPE_FLOAT64, 2, ids_shape);
  ids.strides[0] = 1;  // given as [n x axes]
  ids.strides[1] = f.axes;
  const int64_t shape[] = {n, f.pairs};
  const rotary_tensor cos = rotary_tensor_contiguous(cosines, ROTARY_DTYPE_FLOAT64, 2, shape);
  const rotary_tensor sin = rotary_tensor_contiguous(sines, ROTARY_DTYPE_FLOAT64, 2, shape);
  const rotary_positions at = rotary_positions_ids(&ids);
  return rotary_rope_cos_sin(rope, &cos, &sin, &at);
}
