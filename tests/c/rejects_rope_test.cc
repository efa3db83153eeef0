// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Invalid arguments of rope construction in the C API.

#include <cstdint>
#include <string>
#include <vector>

#include "c/rejects.h"
#include "rotary/model.h"

namespace rotary::rejects_rope_test {
namespace {

/// Ropes from frequencies, which the C API and the C++ API reject alike.
class CRopeRejects : public CApiRejects {
 protected:
  rotary_status make(const rotary_frequencies& f, const rotary_head_layout& layout,
                     const rotary_rope_options* options = nullptr) {
    rope_ = reinterpret_cast<rotary_rope*>(&rope_);  // must become NULL
    const rotary_status status = rotary_rope_from_frequencies(&f, &layout, options, &rope_);
    EXPECT_EQ(rope_, nullptr);
    return status;
  }
  static void same(rotary_status status, const Frequencies& f, const HeadLayout& layout = kLayout,
                   const RopeOptions& options = {}) {
    expect_same_error(status, [&] { const Rope made(f, layout, options); });
  }
  static Frequencies one_pair() { return {.pairs = 1, .values = {1}}; }

  static constexpr double kValues[] = {1.0, kNan};
  static constexpr HeadLayout kLayout{.head_dim = 8, .pairing = Pairing::kHalf};
  const rotary_frequencies c_one_pair_ = rotary_frequencies_init(kValues, 1, 1);
  const rotary_head_layout c_layout_ = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* rope_ = nullptr;
};

TEST_F(CRopeRejects, InvalidLayout) {
  // There is no default for the pairing.
  same(make(c_one_pair_, rotary_head_layout_init(8, 0)), one_pair(), {.head_dim = 8});
  expect_failed(make(c_one_pair_, rotary_head_layout_init(8, 3)), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_from_frequencies] layout.pairing must be 0 to 2, got 3");
  rotary_head_layout other = c_layout_;
  other.output_pairing = -1;
  expect_failed(make(c_one_pair_, other), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_from_frequencies] layout.output_pairing must be 0 to 2, got -1");
  other = c_layout_;
  other.rotary_offset = 7;
  same(make(c_one_pair_, other), one_pair(),
       {.head_dim = 8, .rotary_offset = 7, .pairing = Pairing::kHalf});
  same(make(c_one_pair_, rotary_head_layout_init(-8, ROTARY_PAIRING_HALF)), one_pair(),
       {.head_dim = -8, .pairing = Pairing::kHalf});
}

TEST_F(CRopeRejects, InvalidFrequencies) {
  const auto made = [&](std::int64_t pairs, std::int64_t axes) {
    return make(rotary_frequencies_init(kValues, pairs, axes), c_layout_);
  };
  same(made(2, 1), {.pairs = 2, .values = {1, kNan}});
  same(made(0, 1), {});
  same(made(-1, 1), {.pairs = -1});
  same(made(1, 17), {.pairs = 1, .axes = 17});
  // Values of pairs that the head does not have are not read.
  same(made(1000, 1), {.pairs = 1000, .values = std::vector<double>(1000)});
  for (const int bits : {21, 40, 62}) {
    EXPECT_EQ(made(std::int64_t{1} << bits, 16), ROTARY_INVALID_ARGUMENT);
  }
  rotary_frequencies changed = c_one_pair_;
  changed.scale = 0.0;
  same(make(changed, c_layout_), {.pairs = 1, .values = {1}, .scale = 0});
}

TEST_F(CRopeRejects, InvalidOptions) {
  rotary_rope_options options = rotary_rope_options_init();
  options.precision = 2;
  expect_failed(make(c_one_pair_, c_layout_, &options), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_from_frequencies] options.precision must be 0 to 1, got 2");
  options = rotary_rope_options_init();
  options.cache_policy = 3;
  expect_failed(make(c_one_pair_, c_layout_, &options), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_from_frequencies] options.cache_policy must be 0 to 2, got 3");
  options.cache_policy = ROTARY_CACHE_ALL;
  options.cache_positions = -1;
  same(make(c_one_pair_, c_layout_, &options), one_pair(), kLayout,
       {.cache = {.policy = CachePolicy::kAll, .positions = -1}});
  const rotary_threads threads = rotary_threads_init(-3);
  options = rotary_rope_options_init();
  options.threads = &threads;
  same(make(c_one_pair_, c_layout_, &options), one_pair(), kLayout, {.threads = {.count = -3}});
  expect_same_error(rotary_rope_with_threads(c(), &threads, &rope_),
                    [&] { cpp().with_threads({.count = -3}); });
}

TEST_F(CRopeRejects, OddRotaryDimAndThetaOfZero) {
  expect_same_error(rotary_rope_from_theta(7, 100.0, &c_layout_, nullptr, &rope_),
                    [] { make_frequencies({.rotary_dim = 7, .theta = 100}); });
  expect_same_error(rotary_rope_from_theta(8, 0.0, &c_layout_, nullptr, &rope_),
                    [] { make_frequencies({.rotary_dim = 8, .theta = 0}); });
}

TEST_F(CApiRejects, InvalidOverlap) {
  rotary_rope* rope = nullptr;
  for (const std::int32_t overlap : {-1, 2}) {
    rope = reinterpret_cast<rotary_rope*>(&rope);  // must become NULL
    expect_failed(
        rotary_rope_with_stream(c(), nullptr, overlap, &rope), ROTARY_INVALID_ARGUMENT,
        "[rotary_rope_with_stream] overlap must be 0 to 1, got " + std::to_string(overlap));
    EXPECT_EQ(rope, nullptr);
  }
}

TEST_F(CApiRejects, InvalidRopesOfModels) {
  const CModel c_model = read_model("gemma-3-4b.json");
  const Model model = Model::read(kModels + "gemma-3-4b.json");
  rotary_rope* rope = nullptr;
  expect_same_error(rotary_rope_from_model(c_model.get(), "nobody", 0, nullptr, &rope),
                    [&] { model.rope("nobody"); });
  expect_same_error(rotary_rope_from_model(c_model.get(), nullptr, -1, nullptr, &rope),
                    [&] { model.rope().make_rope(-1); });
  EXPECT_EQ(rope, nullptr);
}

}  // namespace
}  // namespace rotary::rejects_rope_test
