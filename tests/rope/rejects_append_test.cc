// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls of kv_cache.h that must be rejected, with nothing written.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rope/append_fixture.h"
#include "rope/rejects.h"

namespace rotary::rejects_append_test {
namespace {

/// The call of a case after `change` is rejected.
void rejected(const AppendCase& c, const std::function<void(KvAppend&)>& change,
              const std::string& rule) {
  AppendFixture fixture(c);
  const std::vector<std::byte> pool = fixture.pool();
  const std::vector<float> computed = fixture.computed();
  const Elements q = fixture.result_q();
  KvAppend call = fixture.arguments();
  change(call);
  expect_rejected([&] { fixture.rope().append(call, fixture.positions()); }, "append", rule);
  EXPECT_TRUE(fixture.pool() == pool && fixture.computed() == computed) << rule;
  EXPECT_TRUE(fixture.result_q() == q) << rule;
}

const AppendCase kPlain{};
const AppendCase kScaled{.quantized = DType::kFloat8E4M3, .scale = ScaleKind::kTensor};

TEST(RejectsAppend, Tensors) {
  rejected(kPlain, [](KvAppend& a) { a.k.shape[0] = 6; }, "must share batch and tokens");
  rejected(kPlain, [](KvAppend& a) { a.v.shape[0] = 6; }, "must share batch and tokens");
  rejected(kPlain, [](KvAppend& a) { a.k.shape[2] = 12; }, "head_dim 24");
  rejected(kPlain, [](KvAppend& a) { a.k.rank = 2; }, "must be [tokens, heads, head_dim]");
  rejected(kPlain, [](KvAppend& a) { a.k.dtype = DType::kInt32; }, "floating-point type");
  rejected(
      kPlain, [](KvAppend& a) { a.v.dtype = DType::kFloat8E5M2; }, "float8 is for what is stored");
  rejected(kPlain, [](KvAppend& a) { a.v = {}; }, "v and values must be given together");
  rejected(kPlain, [](KvAppend& a) { a.k.data = nullptr; }, "no memory");
  rejected(
      kPlain, [](KvAppend& a) { a.k.device.type = DeviceType::kCuda; },
      "must be on the device of k");
}

TEST(RejectsAppend, Caches) {
  rejected(kPlain, [](KvAppend& a) { a.keys.data.rank = 2; }, "keys must be [blocks");
  rejected(kPlain, [](KvAppend& a) { a.keys.data.shape[2] = 1; }, "keys must hold 2 heads of 24");
  rejected(
      kPlain, [](KvAppend& a) { a.values.data.shape[3] = 10; }, "values must hold 2 heads of 20");
  rejected(kPlain, [](KvAppend& a) { a.values.data.shape[0] = 5; }, "the same blocks");
  rejected(kPlain, [](KvAppend& a) { a.keys.data.strides[3] = 2; }, "must be contiguous");
  rejected(kPlain, [](KvAppend& a) { a.keys.data.strides[1] = 0; }, "must not share memory");
  rejected(
      kPlain, [](KvAppend& a) { a.keys.data.dtype = DType::kBFloat16; },
      "keys must have the type of what is stored, float32, or float8 or int8, got bfloat16");
  rejected(
      {.type = DType::kFloat64}, [](KvAppend& a) { a.keys.data.dtype = DType::kInt8; },
      "keys must have the type of what is stored, float64, got int8");
  rejected(kPlain, [](KvAppend& a) { a.keys.data.dtype = DType::kInt64; }, "got int64");
  rejected(
      kPlain, [](KvAppend& a) { a.values.data.data = a.keys.data.data; },
      "keys and values must not share memory");
  rejected(kPlain, [](KvAppend& a) { a.k.data = a.keys.data.data; }, "must not share memory");
  rejected(kPlain, [](KvAppend& a) { a.k.data = a.q->out.data; }, "q and k must not share memory");
}

TEST(RejectsAppend, Slots) {
  static const std::vector<std::int64_t> kBeyond{0, 1, 2, 24, 4, 5, 6};
  static const std::vector<std::int64_t> kNegative{0, 1, -2, 3, 4, 5, 6};
  static const std::vector<std::int32_t> kNoBlock{0, -1, 2};
  static const std::vector<std::int64_t> kRows{0, 0, 0, 0, 0, 1, 0};
  const auto flat = [](const std::vector<std::int64_t>& values) {
    return ConstTensorView::contiguous(values.data(), DType::kInt64, {7});
  };
  const auto table = [](DType type) {
    return ConstTensorView::contiguous(kNoBlock.data(), type, {1, 3});
  };
  const auto by = [](const Slots& slots) { return [slots](KvAppend& a) { a.slots = slots; }; };
  rejected(kPlain, by(Slots::flat(flat(kBeyond))),
           "slots must be below 24 (6 blocks of 4), got 24");
  rejected(kPlain, by(Slots::flat(flat(kNegative))), "slots must be -1 or not negative, got -2");
  rejected(kPlain, by({}), "slots must be int32 or int64");
  rejected(kPlain,
           by(Slots::flat(ConstTensorView::contiguous(kBeyond.data(), DType::kFloat64, {7}))),
           "slots must be int32 or int64");
  rejected({.tokens = 6}, by(Slots::flat(flat(kBeyond))), "[n] with n at most 6");
  rejected({.tokens = 5}, by(Slots::paged(table(DType::kInt32), flat(kBeyond))), "at most 5");
  rejected(kPlain, by(Slots::paged(table(DType::kInt32), flat(kBeyond))),
           "the block table has 3 blocks of 4 tokens for a sequence, got index 24");
  rejected(kPlain, by(Slots::paged(table(DType::kInt32), flat(kRows), flat(kRows))),
           "sequences must be rows of the block table, 0 to 0, got 1");
  rejected(kPlain, by(Slots::paged(table(DType::kFloat32), flat(kRows))),
           "the block table must be");
  static const std::vector<std::int64_t> kSecondPage{4, 0, 0, 0, 0, 0, 0};
  rejected(kPlain, by(Slots::paged(table(DType::kInt32), flat(kSecondPage))), "has no block");
}

TEST(RejectsAppend, NormsOfFloat64) {
  AppendFixture fixture({.type = DType::kFloat64});
  const std::vector<std::byte> pool = fixture.pool();
  KvAppend call = fixture.arguments();
  call.norm.kind = NormKind::kRms;
  expect_rejected([&] { fixture.rope().append(call, fixture.positions()); }, "append",
                  "got float64");
  expect_rejected([&] { store_kv(call); }, "store_kv", "no q and no norm");
  EXPECT_TRUE(fixture.pool() == pool);
}

TEST(RejectsAppend, Scales) {
  static const float kBad[] = {0.0f, 1.0f};
  static float computed[1000];
  const auto scale = [](std::int64_t n) {
    return ConstTensorView::contiguous(kBad, DType::kFloat32, {n});
  };
  rejected(
      kPlain, [&](KvAppend& a) { a.keys.scale = scale(1); }, "scales are for quantised stores");
  rejected(kScaled, [&](KvAppend& a) { a.keys.scale = scale(1); }, "positive and finite, got 0");
  rejected(kScaled, [&](KvAppend& a) { a.keys.scale.shape[0] = 3; }, "float32 of [1] or [2]");
  rejected(kScaled, [&](KvAppend& a) { a.keys.scale.dtype = DType::kFloat64; }, "float32 of [1]");
  const auto with = [](std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(computed, DType::kFloat32, shape);
  };
  rejected(kScaled, [&](KvAppend& a) { a.keys.computed_scales = with({6, 4, 2}); }, "got both");
  const AppendCase c{.quantized = DType::kInt8, .scale = ScaleKind::kComputed};
  rejected(
      c, [&](KvAppend& a) { a.keys.computed_scales = with({6, 4}); }, "computed scales of keys");
  rejected(c, [&](KvAppend& a) { a.keys.computed_scales = with({6, 4, 1}); }, "computed scales");
  rejected(c, [&](KvAppend& a) { a.keys.computed_scales = with({6, 4, 2, 5}); }, "that divides it");
  rejected(
      c, [&](KvAppend& a) { a.keys.computed_scales.data = a.values.computed_scales.data; },
      "must not share memory");
}

}  // namespace
}  // namespace rotary::rejects_append_test
