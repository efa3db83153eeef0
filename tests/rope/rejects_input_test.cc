// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Arguments that Rope and TensorView reject.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rope/rejects.h"
#include "rotary/error.h"

namespace rotary::rejects_input_test {
namespace {

// ---- Rope ---------------------------------------------------------------------------------------

void expect_rope_rejected(const Frequencies& f, const HeadLayout& layout, const std::string& rule,
                          const std::string& value = "") {
  expect_rejected([&] { const Rope rope(f, layout); }, "Rope", rule, value);
}

TEST(RopeConstructorRejects, InvalidLayout) {
  constexpr auto kHalf = Pairing::kHalf;
  expect_rope_rejected(half_radians(), {.head_dim = 8}, "pairing must be given");
  expect_rope_rejected(half_radians(), {.pairing = kHalf}, "head_dim must be positive", "got 0");
  expect_rope_rejected(half_radians(), {.head_dim = -8, .pairing = kHalf},
                       "head_dim must be positive", "got -8");
  expect_rope_rejected(half_radians(5), {.head_dim = 8, .pairing = kHalf},
                       "the rotary slice must fit into head_dim 8",
                       "got rotary_dim 10 at rotary_offset 0");
  expect_rope_rejected(half_radians(), {.head_dim = 8, .rotary_offset = 5, .pairing = kHalf},
                       "the rotary slice must fit into head_dim 8",
                       "got rotary_dim 4 at rotary_offset 5");
  expect_rope_rejected(half_radians(), {.head_dim = 8, .rotary_offset = -1, .pairing = kHalf},
                       "the rotary slice must fit", "rotary_offset -1");
  expect_rope_rejected(half_radians(), {.head_dim = 8, .rotary_offset = kMax, .pairing = kHalf},
                       "the rotary slice must fit", "rotary_offset 9223372036854775807");
}

TEST(RopeConstructorRejects, MatrixOfWrongSize) {
  const HeadLayout layout{.head_dim = 8, .pairing = Pairing::kHalf};
  expect_rope_rejected({}, layout, "at least one pair", "got 0");
  expect_rope_rejected({.pairs = -1}, layout, "at least one pair", "got -1");
  expect_rope_rejected({.pairs = 2, .values = {1}}, layout, "must be [2 pairs x 1 axes]",
                       "got 1 values");
  expect_rope_rejected({.pairs = 2, .axes = 0}, layout, "1 to 16 axes", "got 0");
  expect_rope_rejected(half_radians(2, 17), layout, "1 to 16 axes", "got 17");
  // 2^62 pairs on 16 axes are 0 values in 64 bits.
  expect_rope_rejected({.pairs = kHuge, .axes = 16}, layout, "4611686018427387904 pairs x 16 axes",
                       "got 0 values");
  expect_rope_rejected({.pairs = 2, .values = {1, 1}, .growth = {0}}, layout,
                       "must be [2 pairs x 1 axes]", "1 of growth");
}

TEST(RopeConstructorRejects, NonFiniteValues) {
  const HeadLayout layout{.head_dim = 8, .pairing = Pairing::kHalf};
  for (const auto& [value, text] : {std::pair{kNan, "got nan"},
                                    {kInf, "got inf"},
                                    {-kInf, "got -inf"},
                                    {0x1.8p31, "got 322"}}) {
    expect_rope_rejected({.pairs = 2, .values = {1.0, value}}, layout,
                         "frequencies must be finite and at most 2^31", text);
    expect_rope_rejected({.pairs = 2, .values = {1.0, value}}, layout, "for pair 1");
  }
  expect_rope_rejected({.pairs = 1, .values = {1}, .growth = {kNan}}, layout,
                       "growth that is not finite", "for pair 0");
  for (const double scale : {0.0, -1.0, kNan, kInf}) {
    expect_rope_rejected({.pairs = 1, .values = {1}, .scale = scale}, layout,
                         "scale must be positive and finite", "got");
  }
  expect_rope_rejected({.pairs = 1, .values = {1}, .growth_origin = kInf}, layout,
                       "growth_origin must be finite", "got inf");
}

TEST(RopeConstructorAccepts, Limits) {
  const HeadLayout layout{.head_dim = 4, .pairing = Pairing::kHalf};
  const Rope rope({.pairs = 2, .values = {0x1p31, -0x1p31}}, layout);
  EXPECT_EQ(rope.layout().output_pairing, Pairing::kHalf);
  EXPECT_EQ(rope.options().precision, Precision::kExact);
  EXPECT_EQ(rope.options().cache.policy, CachePolicy::kNone);
  EXPECT_EQ(rope.frequencies().values, (std::vector<double>{0x1p31, -0x1p31}));
  EXPECT_NO_THROW(Rope(half_radians(2, 16), layout));
}

// ---- Tensors ------------------------------------------------------------------------------------

/// A change made to a view.
template <typename Change>
TensorView changed(TensorView view, Change change) {
  change(view);
  return view;
}

TEST_F(RopeRejects, WrongRank) {
  for (const int rank : {0, 1, 2, 5, -1}) {
    rejects(changed(x(), [rank](TensorView& v) { v.rank = rank; }),
            "the tensor must be [tokens, heads, head_dim] or [batch, tokens, heads, head_dim]",
            "got rank " + std::to_string(rank));
  }
}

TEST_F(RopeRejects, WrongType) {
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    rejects(changed(x(), [dtype](TensorView& v) { v.dtype = dtype; }),
            "the tensor must be of a floating-point type", "got int");
  }
  rejects(x(), changed(y(), [](TensorView& v) { v.dtype = DType::kFloat16; }), Positions::range(),
          "out must have the type of in (float32)", "got float16");
}

TEST_F(RopeRejects, WrongShape) {
  rejects(changed(x(), [](TensorView& v) { v.shape[2] = 5; }), "the last size must be head_dim 4",
          "got shape [3, 2, 5]");
  rejects(changed(x(), [](TensorView& v) { v.shape[0] = -3; }), "sizes must not be negative",
          "got -3");
  rejects(x(), changed(y(), [](TensorView& v) { v.shape[0] = 2; }), Positions::range(),
          "out must have the shape of in [1, 3, 2, 4]", "got [1, 2, 2, 4]");
  rejects(x(), changed(y(), [](TensorView& v) { v.shape[1] = 1; }), Positions::range(),
          "out must have the shape of in", "got [1, 3, 1, 4]");
  expect_rejected([] { TensorView::contiguous(nullptr, DType::kFloat32, {1, 1, 1, 1, 1}); },
                  "TensorView", "rank must be at most 4", "got 5");
  expect_rejected([] { TensorView::contiguous(nullptr, DType::kFloat32, {2, -1}); }, "TensorView",
                  "sizes must not be negative", "got -1");
}

// Sizes and strides whose products overflow 64 bits.
TEST_F(RopeRejects, SizesThatOverflow) {
  constexpr const char* kRule = "sizes and strides must fit into memory";
  rejects(changed(x(), [](TensorView& v) { v.shape[0] = kHuge; }), kRule, "got shape [461");
  rejects(changed(x(), [](TensorView& v) { v.shape[0] = v.shape[1] = kHuge; }), kRule);
  rejects(changed(x(), [](TensorView& v) { v.strides[0] = kHuge; }), kRule, "got shape [3, 2, 4]");
  rejects(changed(x(), [](TensorView& v) { v.strides[1] = -kMax - 1; }), kRule);
}

TEST_F(RopeRejects, DifferentDevices) {
  const Device gpu{DeviceType::kCuda, 0};
  const char* const rule =
      has_cuda() ? "in and out must be on the same device" : "this build rotates on the CPU only";
  rejects(x(), changed(y(), [&gpu](TensorView& v) { v.device = gpu; }), Positions::range(), rule);
  rejects(x(), changed(y(), [](TensorView& v) { v.device.index = 1; }), Positions::range(),
          "in and out must be on the same device");
}

// Without a GPU, in any build.
TEST_F(RopeRejects, CudaTensorWithoutGpu) {
  const TensorView there = changed(x(), [](TensorView& v) { v.device = {DeviceType::kCuda, 0}; });
  if (!has_cuda()) {
    EXPECT_EQ(cuda_device_count(), 0);
    rejects(there, "this build rotates on the CPU only", "got a CUDA tensor");
  } else if (cuda_device_count() == 0) {
    try {
      rope().rotate(there, Positions::range());
      FAIL() << "nothing was thrown";
    } catch (const CudaError& error) {
      EXPECT_NE(error.code(), 0);
      EXPECT_THAT(error.what(), testing::StartsWith("[rotate] CUDA: "));
    }
  }
}

TEST_F(RopeRejects, Float8OnCpu) {
  const auto narrow = [](TensorView& v) { v.dtype = DType::kFloat8E4M3; };
  rejects(changed(x(), narrow), "float8 is for outputs only", "got an input of float8_e4m3");
  rejects(x(), changed(y(), narrow), Positions::range(), "out must have the type of in (float32)",
          "got float8_e4m3");
  if (has_cuda()) {
    // In place it would overwrite elements that are still to be read.
    const auto there = [](TensorView& v) { v.device = {DeviceType::kCuda, 0}; };
    const TensorView wide = changed(x(), there);
    rejects(wide, changed(wide, narrow), Positions::range(), "share no memory", "overlap");
    const auto* within = static_cast<const float*>(y().data);
    const TensorView out = changed(changed(y(), there), narrow);
    expect_rejected([&] { rope().rotate(Operand(wide, out, within), Positions::range()); },
                    "rotate", "out_scale must not lie in a tensor that is written");
  }
  const float scale = 1.0f;
  expect_rejected([&] { rope().rotate(Operand(x(), y(), &scale), Positions::range()); }, "rotate",
                  "out_scale is for float8 outputs", "got float32");
}

TEST_F(RopeRejects, MissingOrMisalignedMemory) {
  rejects(changed(x(), [](TensorView& v) { v.data = nullptr; }), "the tensor has no memory",
          "[3, 2, 4]");
  rejects(x(), changed(y(), [](TensorView& v) { v.data = nullptr; }), Positions::range(),
          "the tensor has no memory");
  for (const int bytes : {1, 2, 3}) {
    rejects(
        changed(x(), [bytes](TensorView& v) { v.data = static_cast<std::byte*>(v.data) + bytes; }),
        "the memory must be aligned to its elements (4 bytes)", "got address 0x");
  }
}

// Elements that share memory: a broadcast view, too short strides, a repeated head.
TEST_F(RopeRejects, OutputElementsThatShareMemory) {
  constexpr const char* kRule = "elements of the output must not share memory";
  for (const Dims& strides : {Dims{0, 4, 1, 0},
                              {8, 0, 1, 0},
                              {8, 4, 0, 0},
                              {4, 4, 1, 0},
                              {8, 3, 1, 0},
                              {-4, 4, 1, 0},
                              {7, 4, 1, 0}}) {
    const TensorView view = changed(x(), [&strides](TensorView& v) { v.strides = strides; });
    rejects(view, kRule, "got strides 0 ");
    rejects(y(), view, Positions::range(), kRule, "for shape [1, 3, 2, 4]");
  }
}

using RopeAccepts = RopeRejects;

// A broadcast view may be an input, but not an output.
TEST_F(RopeAccepts, BroadcastInput) {
  std::vector<float> out(24);
  const TensorView one = changed(x(), [](TensorView& v) { v.strides = {0, 0, 1, 0}; });
  rope().rotate(one, TensorView::contiguous(out.data(), DType::kFloat32, {3, 2, 4}),
                Positions::range());
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_NE(out[8], 0.5f);
}

TEST_F(RopeRejects, OverlappingInputAndOutput) {
  constexpr const char* kRule = "in and out must be the same view or share no memory";
  const auto moved = [this](std::ptrdiff_t elements) {
    return changed(x(),
                   [elements](TensorView& v) { v.data = static_cast<float*>(v.data) + elements; });
  };
  rejects(x(), moved(1), Positions::range(), kRule, "overlap");
  rejects(moved(23), x(), Positions::range(), kRule);
  // The same memory in another order.
  rejects(x(), changed(x(), [](TensorView& v) { v.strides = {4, 12, 1, 0}; }), Positions::range(),
          kRule);
  // Backwards from the last token, and from one that lies beyond.
  rejects(changed(moved(32), [](TensorView& v) { v.strides[0] = -16; }), x(), Positions::range(),
          kRule);
  rejects(changed(moved(16), [](TensorView& v) { v.strides[0] = -8; }), x(), Positions::range(),
          kRule);
}

}  // namespace
}  // namespace rotary::rejects_input_test
