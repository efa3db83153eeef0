// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The headers and the library from C11: each function once. Results are tested in C++.

#include <stdio.h>
#include <string.h>

#include "rotary/rotary_c_analysis.h"

static int failures = 0;

static void expect(int holds, const char* text, int line) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "line %d: not true: %s (last error: %s)\n", line, text, rotary_last_error());
}
#define ROTARY_EXPECT(condition) expect((condition) ? 1 : 0, #condition, __LINE__)
#define ROTARY_EXPECT_OK(call) expect((call) == ROTARY_OK, #call, __LINE__)

// No padding between members, so that newer versions can append some.
_Static_assert(sizeof(rotary_tensor) == 24 + 2 * sizeof(void*) + 64, "rotary_tensor");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_positions) == 80, "rotary_positions");
_Static_assert(sizeof(rotary_head_layout) == 32, "rotary_head_layout");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_frequencies) == 64, "rotary_frequencies");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_threads) == 24, "rotary_threads");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_rope_options) == 32, "rotary_rope_options");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_model_rope) == 128, "rotary_model_rope");
_Static_assert(sizeof(void*) != 8 || sizeof(rotary_gradients) == 56, "rotary_gradients");

static void run_here(void* context, int32_t tasks, rotary_task task, void* task_context) {
  ++*(int*)context;
  for (int32_t i = 0; i < tasks; ++i) task(task_context, i);
}

enum { kTokens = 4, kHeads = 2, kHeadDim = 8, kSize = kTokens * kHeads * kHeadDim };
static const int64_t kShape[] = {kTokens, kHeads, kHeadDim};

static void fill(float* x) {
  for (int i = 0; i < kSize; ++i) x[i] = (float)(i % 7) - 3.0F;
}

static void test_model(const char* path) {
  rotary_model* model = NULL;
  const char* type = NULL;
  int64_t count = 0;
  rotary_model_rope info = rotary_model_rope_init();
  ROTARY_EXPECT_OK(rotary_model_read(path, &model));
  ROTARY_EXPECT_OK(rotary_model_get_type(model, &type));
  ROTARY_EXPECT(strcmp(type, "llama") == 0);
  ROTARY_EXPECT_OK(rotary_model_count_ropes(model, &count));
  ROTARY_EXPECT(count == 1);
  ROTARY_EXPECT_OK(rotary_model_get_rope(model, 0, &info));
  ROTARY_EXPECT_OK(rotary_model_find_rope(model, "default", &info));
  ROTARY_EXPECT(strcmp(info.scaling, "llama3") == 0 && info.theta == 5e5);
  ROTARY_EXPECT(info.layout->pairing == ROTARY_PAIRING_HALF && info.layout->head_dim == 128);

  rotary_rope* rope = NULL;
  rotary_rope_options options = rotary_rope_options_init();
  ROTARY_EXPECT_OK(rotary_rope_from_model(model, NULL, 0, &options, &rope));
  rotary_model_free(model);
  rotary_frequencies f = rotary_frequencies_init(NULL, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(rope, &f));
  ROTARY_EXPECT(f.pairs == 64 && f.axes == 1 && f.values[0] == 1.0 && f.scale == 1.0);
  rotary_rope_free(rope);

  const char json[] = "{\"model_type\": ";
  ROTARY_EXPECT(rotary_model_parse_config(json, strlen(json), "x", &model) == ROTARY_IO_ERROR);
  ROTARY_EXPECT(rotary_model_parse_gguf("GGUF", 4, "x", &model) == ROTARY_IO_ERROR);
  ROTARY_EXPECT(model == NULL);
}

static void test_analysis(const char* path) {
  rotary_model* model = NULL;
  rotary_model* hf = NULL;
  rotary_model* plain = NULL;
  rotary_rope* rope = NULL;
  rotary_rope* other = NULL;
  const rotary_recipe recipe = rotary_recipe_init(128, 5e5);
  ROTARY_EXPECT_OK(rotary_model_read(path, &model));
  ROTARY_EXPECT_OK(rotary_model_in_dialect(model, "hf", &hf));
  ROTARY_EXPECT_OK(rotary_model_with_recipe(model, NULL, &recipe, &plain));
  ROTARY_EXPECT_OK(rotary_rope_from_model(hf, NULL, 0, NULL, &rope));
  ROTARY_EXPECT_OK(rotary_rope_from_model(plain, NULL, 0, NULL, &other));
  char* texts[5] = {NULL, NULL, NULL, NULL, NULL};
  ROTARY_EXPECT_OK(rotary_rope_inspect(rope, &texts[0]));
  ROTARY_EXPECT_OK(rotary_rope_bounds(rope, 256, 1, &texts[1]));
  ROTARY_EXPECT_OK(rotary_rope_diff(rope, other, &texts[2]));
  ROTARY_EXPECT_OK(rotary_model_plan(model, NULL, 262144, "vllm", &texts[3]));
  ROTARY_EXPECT_OK(rotary_dialect_list(&texts[4]));
  for (int i = 0; i < 5; ++i) {
    ROTARY_EXPECT(texts[i] != NULL && (texts[i][0] == '{' || texts[i][0] == '['));
    rotary_text_free(texts[i]);
  }
  const double distances[] = {0.0, 1.0};
  const int64_t positions[] = {0, 1};
  double x[2] = {0.0, 0.0};
  int64_t pairs[2] = {-1, -1};
  ROTARY_EXPECT_OK(rotary_rope_scores(rope, distances, 2, x));
  ROTARY_EXPECT(x[0] == 1.0 && x[1] < 1.0);
  ROTARY_EXPECT_OK(rotary_rope_decay(rope, distances, 2, x));
  ROTARY_EXPECT(x[0] == 32.5);  // the mean of 1 ... 64
  ROTARY_EXPECT_OK(
      rotary_rope_angle_errors(rope, ROTARY_ANGLE_FAST_MATH, positions, 2, x, NULL, pairs));
  ROTARY_EXPECT(x[0] == 0.0 && pairs[0] >= 0);
  rotary_rope_free(other);
  rotary_rope_free(rope);
  rotary_model_free(plain);
  rotary_model_free(hf);
  rotary_model_free(model);
}

static void test_rope(void) {
  const double values[] = {1.0, 0.5, 0.25, 0.125};
  const rotary_frequencies f = rotary_frequencies_init(values, 4, 1);
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_INTERLEAVED);
  rotary_rope* rope = NULL;
  rotary_rope* other = NULL;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&f, &layout, NULL, &rope));
  ROTARY_EXPECT_OK(rotary_rope_from_theta(kHeadDim, 100.0, &layout, NULL, &other));

  float x[kSize];
  float y[kSize];
  float before[kSize];
  fill(x);
  fill(before);
  const rotary_tensor in = rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 3, kShape);
  const rotary_tensor out = rotary_tensor_contiguous(y, ROTARY_DTYPE_FLOAT32, 3, kShape);
  const rotary_positions range = rotary_positions_range(2);
  const rotary_positions delta = rotary_positions_at(3);
  const rotary_positions further = rotary_positions_range(5);

  // Rotated at 2 and shifted by 3 equals rotated at 5; unrotated it equals the input.
  ROTARY_EXPECT_OK(rotary_rope_rotate(rope, &in, &out, 1, &range));
  ROTARY_EXPECT(memcmp(x, before, sizeof(x)) == 0 && memcmp(y, x, sizeof(x)) != 0);
  ROTARY_EXPECT_OK(rotary_rope_shift(rope, &out, NULL, 1, &delta));
  ROTARY_EXPECT_OK(rotary_rope_rerotate(rope, other, &out, NULL, 1, &further));
  ROTARY_EXPECT_OK(rotary_rope_rerotate(other, rope, &out, NULL, 1, &further));
  ROTARY_EXPECT_OK(rotary_rope_unrotate(rope, &out, NULL, 1, &further));
  for (int i = 0; i < kSize; ++i) ROTARY_EXPECT(y[i] - x[i] < 1e-5F && x[i] - y[i] < 1e-5F);

  // The gradient of a rotation is its adjoint.
  float grad[kSize];
  double scale = 0.0;
  const rotary_tensor grad_in = rotary_tensor_contiguous(grad, ROTARY_DTYPE_FLOAT32, 3, kShape);
  rotary_gradients gradients = rotary_gradients_init();
  gradients.scale = &scale;
  fill(y);
  ROTARY_EXPECT_OK(rotary_rope_gradient(rope, &in, &out, &grad_in, 1, &range, &gradients));
  ROTARY_EXPECT_OK(rotary_rope_adjoint(rope, &out, NULL, 1, &range));
  ROTARY_EXPECT(memcmp(grad, y, sizeof(y)) == 0 && scale != 0.0);
  size_t bytes = 0;
  ROTARY_EXPECT_OK(rotary_rope_gradient_workspace(rope, 1, kTokens, &bytes));
  ROTARY_EXPECT((bytes > 0) == (rotary_has_cuda() == 1));

  rotary_rope* copy = NULL;
  int runs = 0;
  rotary_threads threads = rotary_threads_init(2);
  threads.parallel_for = run_here;
  threads.context = &runs;
  ROTARY_EXPECT_OK(rotary_rope_with_threads(rope, &threads, &copy));
  rotary_rope_options options = rotary_rope_options_init();
  rotary_head_layout asked = rotary_head_layout_init(0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_options(copy, &options));
  ROTARY_EXPECT_OK(rotary_rope_get_layout(copy, &asked));
  ROTARY_EXPECT(options.threads->count == 2 && asked.head_dim == kHeadDim);
  rotary_rope_free(copy);
  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(rope, &copy));
  rotary_rope_free(copy);
  ROTARY_EXPECT_OK(rotary_rope_with_stream(rope, NULL, 0, &copy));
  rotary_rope_free(copy);
  rotary_rope_free(other);
  rotary_rope_free(rope);
  rotary_rope_free(NULL);
}

// A rotation by cos and sin of a rope equals that of the rope.
static void test_cos_sin(void) {
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
  rotary_rope* rope = NULL;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(kHeadDim, 100.0, &layout, NULL, &rope));
  float cosines[kTokens * 4];
  float sines[kTokens * 4];
  const int64_t shape[] = {kTokens, 4};
  const rotary_tensor c = rotary_tensor_contiguous(cosines, ROTARY_DTYPE_FLOAT32, 2, shape);
  const rotary_tensor s = rotary_tensor_contiguous(sines, ROTARY_DTYPE_FLOAT32, 2, shape);
  const rotary_positions range = rotary_positions_range(0);
  ROTARY_EXPECT_OK(rotary_rope_cos_sin(rope, &c, &s, &range));
  ROTARY_EXPECT(cosines[0] == 1.0F && sines[0] == 0.0F);

  float x[kSize];
  float y[kSize];
  fill(x);
  fill(y);
  const rotary_tensor q = rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 3, kShape);
  const rotary_tensor k = rotary_tensor_contiguous(y, ROTARY_DTYPE_FLOAT32, 3, kShape);
  rotary_table* table = NULL;
  rotary_table* on_stream = NULL;
  ROTARY_EXPECT_OK(rotary_table_create(&c, &s, ROTARY_TABLE_PAIRS, &layout, NULL, &table));
  ROTARY_EXPECT_OK(rotary_table_with_stream(table, NULL, 1, &on_stream));
  ROTARY_EXPECT_OK(rotary_rope_rotate(rope, &q, NULL, 1, &range));
  ROTARY_EXPECT_OK(rotary_table_rotate(on_stream, &k, NULL, 1, NULL));
  for (int i = 0; i < kSize; ++i) ROTARY_EXPECT(y[i] - x[i] < 1e-5F && x[i] - y[i] < 1e-5F);
  rotary_table_free(on_stream);
  rotary_table_free(table);
  rotary_rope_free(rope);
}

static void test_table(void) {
  float cosines[kTokens * 4] = {0.0F};  // a quarter turn for every pair
  float sines[kTokens * 4];
  for (int i = 0; i < kTokens * 4; ++i) sines[i] = 1.0F;
  const int64_t shape[] = {kTokens, 4};
  const rotary_tensor c = rotary_tensor_contiguous(cosines, ROTARY_DTYPE_FLOAT32, 2, shape);
  const rotary_tensor s = rotary_tensor_contiguous(sines, ROTARY_DTYPE_FLOAT32, 2, shape);
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
  rotary_table* table = NULL;
  ROTARY_EXPECT_OK(rotary_table_create(&c, &s, ROTARY_TABLE_PAIRS, &layout, NULL, &table));

  float x[kSize];
  float before[kSize];
  fill(x);
  fill(before);
  const rotary_tensor q = rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 3, kShape);
  const rotary_positions rows = rotary_positions_range(0);
  ROTARY_EXPECT_OK(rotary_table_rotate(table, &q, NULL, 1, NULL));
  ROTARY_EXPECT(x[0] == -before[4] && x[4] == before[0]);
  ROTARY_EXPECT_OK(rotary_table_unrotate(table, &q, NULL, 1, &rows));
  ROTARY_EXPECT(memcmp(x, before, sizeof(x)) == 0);
  ROTARY_EXPECT_OK(rotary_table_rotate(table, &q, NULL, 1, NULL));
  ROTARY_EXPECT_OK(rotary_table_adjoint(table, &q, NULL, 1, NULL));
  ROTARY_EXPECT(memcmp(x, before, sizeof(x)) == 0);
  rotary_table_free(table);
}

static void test_positions(void) {
  const double values[] = {1.0, 0.5, 0.25, 0.125};
  const rotary_frequencies f = rotary_frequencies_init(values, 2, 2);
  const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
  rotary_rope* rope = NULL;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&f, &layout, NULL, &rope));

  int32_t numbers[kTokens] = {0, 1, 2, 3};
  const int64_t shape[] = {kTokens};
  const rotary_tensor ids = rotary_tensor_contiguous(numbers, ROTARY_DTYPE_INT32, 1, shape);
  const int64_t row[] = {0};
  const int64_t boundaries[] = {0, kTokens};
  int32_t short_row[] = {0};
  int32_t short_boundaries[] = {0, kTokens};
  const int64_t one[] = {1};
  const int64_t two[] = {2};
  const rotary_tensor rows = rotary_tensor_contiguous(short_row, ROTARY_DTYPE_INT32, 1, one);
  const rotary_tensor ends = rotary_tensor_contiguous(short_boundaries, ROTARY_DTYPE_INT32, 1, two);
  rotary_positions kinds[] = {
      rotary_positions_range(0),
      rotary_positions_range_rows(row, 1),
      rotary_positions_ids(&ids),
      rotary_positions_packed(boundaries, 1, NULL),
      rotary_positions_packed(boundaries, 1, row),
      rotary_positions_range_view(&rows),
      rotary_positions_packed_view(&ends, NULL),
      rotary_positions_packed_view(&ends, &rows),
      rotary_positions_at(0),
      rotary_positions_at_rows(row, 1),
      rotary_positions_packed_at(boundaries, 1, row),
      rotary_positions_at_view(&rows),
      rotary_positions_packed_at_view(&ends, &rows),
  };
  float first[kSize];
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    float x[kSize];
    fill(x);
    const rotary_tensor q = rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 3, kShape);
    ROTARY_EXPECT(rotary_rope_rotate(rope, &q, NULL, 1, &kinds[i]) == ROTARY_INVALID_ARGUMENT);
    kinds[i].on_all_axes = 1;  // two axes
    ROTARY_EXPECT_OK(rotary_rope_rotate(rope, &q, NULL, 1, &kinds[i]));
    if (i == 0) memcpy(first, x, sizeof(x));
    ROTARY_EXPECT((memcmp(first, x, sizeof(x)) == 0) == (i < 8));  // the last five stand still
  }
  rotary_rope_free(rope);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ROTARY_EXPECT(strcmp(rotary_last_error(), "") == 0);
  ROTARY_EXPECT(rotary_c_api_version() == ROTARY_C_API_VERSION);
  ROTARY_EXPECT(strlen(rotary_version()) >= 5);
  ROTARY_EXPECT(rotary_has_cuda() == 1 || rotary_cuda_device_count() == 0);
  ROTARY_EXPECT(strcmp(rotary_status_name(ROTARY_OK), "ok") == 0);
  test_model(argv[1]);
  test_analysis(argv[1]);
  test_rope();
  test_cos_sin();
  test_table();
  test_positions();
  if (failures == 0) puts("all is well");
  return failures == 0 ? 0 : 1;
}
