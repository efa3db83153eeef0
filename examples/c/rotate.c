// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reads the rotation of a model, describes it, rotates a query with it and unrotates it.
//
//   rotate path/to/config.json      (or a folder, or a .gguf file)

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rotary/rotary_c.h"

// Checks the status of a call. A real program would return it.
static void check(rotary_status status) {
  if (status == ROTARY_OK) return;
  fprintf(stderr, "rotate: %s: %s\n", rotary_status_name(status), rotary_last_error());
  exit(1);
}

static void print_lines(const char* title, const char* const* lines, int64_t count) {
  for (int64_t i = 0; i < count; ++i) printf("  %s: %s\n", title, lines[i]);
}

static void print_ropes(const rotary_model* model) {
  const char* type = NULL;
  int64_t count = 0;
  check(rotary_model_get_type(model, &type));
  check(rotary_model_count_ropes(model, &count));
  printf("model type %s, ropes %" PRId64 "\n", type, count);
  for (int64_t i = 0; i < count; ++i) {
    rotary_model_rope rope = rotary_model_rope_init();
    check(rotary_model_get_rope(model, i, &rope));
    printf("%s: %s, theta %g, %" PRId64 " of %" PRId64 " dims rotated, pairing %s\n", rope.name,
           rope.scaling, rope.theta, rope.rotary_dim, rope.layout->head_dim,
           rope.layout->pairing == ROTARY_PAIRING_HALF ? "half" : "interleaved");
    print_lines("assumed", rope.assumed, rope.num_assumed);
    print_lines("warning", rope.warnings, rope.num_warnings);
  }
}

// Two tokens of one head at positions 100 and 101, on every axis that the rope has.
static void rotate_and_back(const rotary_rope* rope, int64_t head_dim) {
  const size_t size = (size_t)(2 * head_dim);
  float* const x = malloc(size * sizeof(float));
  if (x == NULL) exit(1);
  for (size_t i = 0; i < size; ++i) x[i] = 1.0F;

  const int64_t shape[] = {2, 1, head_dim};
  const rotary_tensor q = rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 3, shape);
  rotary_positions positions = rotary_positions_range(100);
  positions.on_all_axes = 1;
  check(rotary_rope_rotate(rope, &q, NULL, 1, &positions));
  printf("rotated: %.6f %.6f %.6f ...\n", (double)x[0], (double)x[1], (double)x[2]);
  check(rotary_rope_unrotate(rope, &q, NULL, 1, &positions));
  int same = 1;
  for (size_t i = 0; i < size; ++i) same = same && x[i] > 0.999999F && x[i] < 1.000001F;
  printf("unrotated: %s\n", same ? "the same within 1e-6" : "not the same");
  free(x);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: rotate path/to/config.json\n");
    return 2;
  }
  printf("rotary %s\n", rotary_version());

  rotary_model* model = NULL;
  check(rotary_model_read(argv[1], &model));
  print_ropes(model);

  rotary_rope* rope = NULL;
  check(rotary_rope_from_model(model, NULL, 0, NULL, &rope));
  rotary_model_free(model);

  rotary_frequencies frequencies = rotary_frequencies_init(NULL, 0, 0);
  rotary_head_layout layout = rotary_head_layout_init(0, 0);
  check(rotary_rope_get_frequencies(rope, &frequencies));
  check(rotary_rope_get_layout(rope, &layout));
  printf("scale %g, frequency of pair 1: %.9g rad per token\n", frequencies.scale,
         frequencies.values[1 < frequencies.pairs ? frequencies.axes : 0]);

  rotate_and_back(rope, layout.head_dim);

  // Invalid arguments are rejected with a message, and nothing is written.
  float too_short[4] = {0.0F};
  const int64_t shape[] = {1, 1, 4};
  const rotary_tensor bad = rotary_tensor_contiguous(too_short, ROTARY_DTYPE_FLOAT32, 3, shape);
  const rotary_positions positions = rotary_positions_range(0);
  const rotary_status status = rotary_rope_rotate(rope, &bad, NULL, 1, &positions);
  printf("a head of 4: %s: %s\n", rotary_status_name(status), rotary_last_error());

  rotary_rope_free(rope);
  return status == ROTARY_INVALID_ARGUMENT ? 0 : 1;
}
