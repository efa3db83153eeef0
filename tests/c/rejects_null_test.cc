// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// NULL for every pointer argument of the C API.

#include <vector>

#include "c/rejects.h"

namespace rotary::rejects_null_test {
namespace {

TEST_F(CApiRejects, NullInModelFunctions) {
  rotary_model* model = nullptr;
  const char* type = nullptr;
  std::int64_t count = 0;
  rotary_model_rope info = rotary_model_rope_init();
  const CModel llama = read_model("llama-3.1-8b.json");
  ROTARY_EXPECT_NULL(rotary_model_read, "path", nullptr, &model);
  ROTARY_EXPECT_NULL(rotary_model_read, "model", "config.json", nullptr);
  ROTARY_EXPECT_NULL(rotary_model_parse_config, "json", nullptr, 0, nullptr, &model);
  ROTARY_EXPECT_NULL(rotary_model_parse_config, "model", "{}", 2, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_model_parse_gguf, "bytes", nullptr, 0, nullptr, &model);
  ROTARY_EXPECT_NULL(rotary_model_parse_gguf, "model", "GGUF", 4, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_model_get_type, "model", nullptr, &type);
  ROTARY_EXPECT_NULL(rotary_model_get_type, "type", llama.get(), nullptr);
  ROTARY_EXPECT_NULL(rotary_model_count_ropes, "model", nullptr, &count);
  ROTARY_EXPECT_NULL(rotary_model_count_ropes, "count", llama.get(), nullptr);
  ROTARY_EXPECT_NULL(rotary_model_get_rope, "model", nullptr, 0, &info);
  ROTARY_EXPECT_NULL(rotary_model_get_rope, "rope", llama.get(), 0, nullptr);
  ROTARY_EXPECT_NULL(rotary_model_find_rope, "model", nullptr, nullptr, &info);
  ROTARY_EXPECT_NULL(rotary_model_find_rope, "rope", llama.get(), nullptr, nullptr);
}

TEST_F(CApiRejects, NullInRopeConstruction) {
  rotary_rope* rope = nullptr;
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  const double values[] = {1.0};
  const rotary_frequencies f = rotary_frequencies_init(values, 1, 1);
  const rotary_frequencies no_values = rotary_frequencies_init(nullptr, 1, 1);
  const rotary_threads threads = rotary_threads_init(1);
  const CModel llama = read_model("llama-3.1-8b.json");
  ROTARY_EXPECT_NULL(rotary_rope_from_model, "model", nullptr, nullptr, 0, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_model, "rope", llama.get(), nullptr, 0, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_from_frequencies, "frequencies", nullptr, &layout, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_frequencies, "frequencies.values", &no_values, &layout,
                     nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_frequencies, "layout", &f, nullptr, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_frequencies, "rope", &f, &layout, nullptr, nullptr);
  const rotary_recipe recipe = rotary_recipe_init(8, 10.0);
  ROTARY_EXPECT_NULL(rotary_rope_from_recipe, "recipe", nullptr, 0, &layout, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_recipe, "layout", &recipe, 0, nullptr, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_recipe, "rope", &recipe, 0, &layout, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_from_theta, "layout", 8, 10.0, nullptr, nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_from_theta, "rope", 8, 10.0, &layout, nullptr, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_with_threads, "rope", nullptr, &threads, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_with_threads, "threads", c(), nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_with_threads, "result", c(), &threads, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_with_stream, "rope", nullptr, nullptr, 0, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_with_stream, "result", c(), nullptr, 0, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_with_inverse_growth, "rope", nullptr, &rope);
  ROTARY_EXPECT_NULL(rotary_rope_with_inverse_growth, "result", c(), nullptr);
}

TEST_F(CApiRejects, NullInRopeGetters) {
  rotary_head_layout layout = rotary_head_layout_init(0, 0);
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  rotary_rope_options options = rotary_rope_options_init();
  ROTARY_EXPECT_NULL(rotary_rope_get_frequencies, "rope", nullptr, &f);
  ROTARY_EXPECT_NULL(rotary_rope_get_frequencies, "frequencies", c(), nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_get_layout, "rope", nullptr, &layout);
  ROTARY_EXPECT_NULL(rotary_rope_get_layout, "layout", c(), nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_get_options, "rope", nullptr, &options);
  ROTARY_EXPECT_NULL(rotary_rope_get_options, "options", c(), nullptr);
  std::size_t bytes = 0;
  ROTARY_EXPECT_NULL(rotary_rope_gradient_workspace, "rope", nullptr, 1, 1, &bytes);
  ROTARY_EXPECT_NULL(rotary_rope_gradient_workspace, "bytes", c(), 1, 1, nullptr);
}

TEST_F(CApiRejects, NullInRotations) {
  const rotary_tensor x = c_tensor(q());
  const rotary_positions p = rotary_positions_range(0);
  ROTARY_EXPECT_NULL(rotary_rope_rotate, "rope", nullptr, &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_rotate, "in", c(), nullptr, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_rotate, "positions", c(), &x, nullptr, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_unrotate, "rope", nullptr, &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_unrotate, "in", c(), nullptr, &x, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_unrotate, "positions", c(), &x, nullptr, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_adjoint, "rope", nullptr, &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_adjoint, "in", c(), nullptr, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_adjoint, "positions", c(), &x, nullptr, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_shift, "rope", nullptr, &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_shift, "in", c(), nullptr, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_shift, "delta", c(), &x, nullptr, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_rerotate, "from", nullptr, c(), &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_rerotate, "to", c(), nullptr, &x, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_rerotate, "in", c(), c(), nullptr, nullptr, 1, &p);
  ROTARY_EXPECT_NULL(rotary_rope_rerotate, "positions", c(), c(), &x, nullptr, 1, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "rope", nullptr, &x, &x, nullptr, 1, &p, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "in", c(), nullptr, &x, nullptr, 1, &p, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "grad_out", c(), &x, nullptr, nullptr, 1, &p, nullptr);
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "positions", c(), &x, &x, nullptr, 1, nullptr, nullptr);
  rotary_gradients gradients = rotary_gradients_init();
  gradients.num_frequencies = 4;
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "gradients.frequencies", c(), &x, &x, nullptr, 1, &p,
                     &gradients);
  gradients = rotary_gradients_init();
  gradients.workspace_size = 8;
  ROTARY_EXPECT_NULL(rotary_rope_gradient, "gradients.workspace", c(), &x, &x, nullptr, 1, &p,
                     &gradients);
  ROTARY_EXPECT_NULL(rotary_rope_cos_sin, "rope", nullptr, &x, &x, &p);
  ROTARY_EXPECT_NULL(rotary_rope_cos_sin, "cosines", c(), nullptr, &x, &p);
  ROTARY_EXPECT_NULL(rotary_rope_cos_sin, "sines", c(), &x, nullptr, &p);
  ROTARY_EXPECT_NULL(rotary_rope_cos_sin, "positions", c(), &x, &x, nullptr);
}

}  // namespace
}  // namespace rotary::rejects_null_test
