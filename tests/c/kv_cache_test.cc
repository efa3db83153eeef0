// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation into caches by the C API: the bits and the errors of the C++ API.

#include "rotary/kv_cache.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "c/c_testing.h"

namespace rotary::kv_cache_test {
namespace {

constexpr std::int64_t kTokens = 5, kHeads = 2, kHeadDim = 8, kBlocks = 3, kBlockSize = 4;
constexpr std::array<std::int64_t, 3> kShape{kTokens, kHeads, kHeadDim};
constexpr std::array<std::int64_t, 4> kCacheShape{kBlocks, kBlockSize, kHeads, kHeadDim};
constexpr std::size_t kSize = kTokens * kHeads * kHeadDim;
constexpr std::size_t kCacheSize = kBlocks * kBlockSize * kHeads * kHeadDim;

/// Memory of a call; one is used by C, an equal one by C++.
struct Tensors {
  std::vector<float> q = values(1.0f), q_out = values(0.0f), k = values(2.0f), v = values(3.0f);
  std::vector<std::int8_t> keys = std::vector<std::int8_t>(kCacheSize, 85);
  std::vector<std::int8_t> stored = std::vector<std::int8_t>(kCacheSize, 85);
  std::vector<float> scales = std::vector<float>(kBlocks * kBlockSize * kHeads, 7.5f);
  float scale = 0.1f;

  static std::vector<float> values(float factor) {
    std::vector<float> x(kSize);
    for (std::size_t i = 0; i < kSize; ++i) x[i] = factor * std::sin(static_cast<float>(i));
    return x;
  }
  friend bool operator==(const Tensors&, const Tensors&) = default;
};

rotary_tensor heads(std::vector<float>& x) {
  return rotary_tensor_contiguous(x.data(), ROTARY_DTYPE_FLOAT32, 3, kShape.data());
}
rotary_tensor cache(std::vector<std::int8_t>& x) {
  return rotary_tensor_contiguous(x.data(), ROTARY_DTYPE_INT8, 4, kCacheShape.data());
}
rotary_tensor ones(float* x, std::int64_t n) {
  return rotary_tensor_contiguous(x, ROTARY_DTYPE_FLOAT32, 1, &n);
}

class CKvCache : public testing::Test {
 protected:
  CKvCache()
      : rope_(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
              {.head_dim = kHeadDim, .pairing = Pairing::kHalf}),
        other_(make_frequencies({.rotary_dim = kHeadDim, .theta = 5e5}),
               {.head_dim = kHeadDim, .pairing = Pairing::kHalf}),
        c_rope_(made(1e4)),
        c_other_(made(5e5)) {}

  static CRope made(double theta) {
    rotary_rope* rope = nullptr;
    const rotary_head_layout layout = rotary_head_layout_init(kHeadDim, ROTARY_PAIRING_HALF);
    ROTARY_EXPECT_OK(rotary_rope_from_theta(kHeadDim, theta, &layout, nullptr, &rope));
    return CRope(rope);
  }
  static TensorView view(std::vector<float>& x) {
    return TensorView::contiguous(x.data(), DType::kFloat32, {kTokens, kHeads, kHeadDim});
  }
  static TensorView view(std::vector<std::int8_t>& x) {
    return TensorView::contiguous(x.data(), DType::kInt8, {kBlocks, kBlockSize, kHeads, kHeadDim});
  }
  static TensorView scales(Tensors& x) {
    return TensorView::contiguous(x.scales.data(), DType::kFloat32, {kBlocks, kBlockSize, kHeads});
  }

  const Rope rope_, other_;
  const CRope c_rope_, c_other_;
  std::vector<std::int64_t> slots_{3, 11, -1, 0, 7};
  std::vector<std::int32_t> table_{2, 0, 1};
};

TEST_F(CKvCache, HasTheBitsOfCpp) {
  Tensors by_c;
  Tensors by_cpp;
  const rotary_tensor q = heads(by_c.q), q_out = heads(by_c.q_out), k = heads(by_c.k),
                      v = heads(by_c.v), key_data = cache(by_c.keys),
                      value_data = cache(by_c.stored), scale = ones(&by_c.scale, 1);
  const rotary_tensor computed =
      rotary_tensor_contiguous(by_c.scales.data(), ROTARY_DTYPE_FLOAT32, 3, kCacheShape.data());
  rotary_stored keys = rotary_stored_init(&key_data);
  keys.computed_scales = &computed;
  rotary_stored values = rotary_stored_init(&value_data);
  values.scale = &scale;
  values.use = ROTARY_SCALE_MULTIPLY;
  const std::array<std::int64_t, 2> one_row{1, 3};
  const rotary_tensor indices =
      rotary_tensor_contiguous(slots_.data(), ROTARY_DTYPE_INT64, 1, &kTokens);
  const rotary_tensor table =
      rotary_tensor_contiguous(table_.data(), ROTARY_DTYPE_INT32, 2, one_row.data());
  rotary_slots slots = rotary_slots_flat(&indices);
  slots.block_table = &table;
  const rotary_positions positions = rotary_positions_range(99);
  ROTARY_EXPECT_OK(
      rotary_rope_append(c_rope_.get(), &q, &q_out, &k, &v, &keys, &values, &slots, &positions));
  ROTARY_EXPECT_OK(rotary_rope_shift_cached(c_rope_.get(), &keys, &slots, &positions));
  ROTARY_EXPECT_OK(
      rotary_rope_rerotate_cached(c_rope_.get(), c_other_.get(), &keys, &slots, &positions));

  const auto row = ConstTensorView::contiguous(slots_.data(), DType::kInt64, {kTokens});
  const Slots at =
      Slots::paged(ConstTensorView::contiguous(table_.data(), DType::kInt32, {1, 3}), row);
  const StoredTensor cpp_keys{.data = view(by_cpp.keys), .computed_scales = scales(by_cpp)};
  rope_.append(
      {.q = Operand(view(by_cpp.q), view(by_cpp.q_out)),
       .k = view(by_cpp.k),
       .v = view(by_cpp.v),
       .keys = cpp_keys,
       .values = {.data = view(by_cpp.stored),
                  .scale = ConstTensorView::contiguous(&by_cpp.scale, DType::kFloat32, {1}),
                  .use = ScaleUse::kMultiply},
       .slots = at},
      Positions::range(99));
  rope_.shift_cached(cpp_keys, at, Positions::range(99));
  rerotate_cached(cpp_keys, at, rope_, other_, Positions::range(99));
  EXPECT_TRUE(by_c == by_cpp);
  EXPECT_FALSE(by_c == Tensors());
}

TEST_F(CKvCache, AppendsWithANorm) {
  Tensors by_c;
  Tensors by_cpp;
  std::array<float, kHeadDim> weight{};
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 0.5f + 0.1f * static_cast<float>(i);
  const rotary_tensor q = heads(by_c.q), q_out = heads(by_c.q_out), k = heads(by_c.k),
                      key_data = cache(by_c.keys), scale = ones(&by_c.scale, 1),
                      row = ones(weight.data(), kHeadDim);
  rotary_stored keys = rotary_stored_init(&key_data);
  keys.scale = &scale;
  const rotary_tensor indices =
      rotary_tensor_contiguous(slots_.data(), ROTARY_DTYPE_INT64, 1, &kTokens);
  const rotary_slots slots = rotary_slots_flat(&indices);
  const rotary_positions positions = rotary_positions_range(99);
  const rotary_norm norm = rotary_norm_init(ROTARY_NORM_RMS_ONE_PLUS, 1e-5);
  ROTARY_EXPECT_OK(rotary_rope_norm_append(c_rope_.get(), &q, &q_out, &k, nullptr, nullptr, &row,
                                           &norm, &keys, nullptr, &slots, &positions));
  rope_.append(
      {.q = Operand(view(by_cpp.q), view(by_cpp.q_out)),
       .k = view(by_cpp.k),
       .keys = {.data = view(by_cpp.keys),
                .scale = ConstTensorView::contiguous(&by_cpp.scale, DType::kFloat32, {1})},
       .slots = Slots::flat(ConstTensorView::contiguous(slots_.data(), DType::kInt64, {kTokens})),
       .norm = {.kind = NormKind::kRmsOnePlus, .eps = 1e-5},
       .k_weight = ConstTensorView::contiguous(weight.data(), DType::kFloat32, {kHeadDim})},
      Positions::range(99));
  EXPECT_TRUE(by_c == by_cpp);
  EXPECT_FALSE(by_c == Tensors());
}

TEST_F(CKvCache, AppendsWithALayerNorm) {
  Tensors by_c;
  Tensors by_cpp;
  std::array<float, kHeadDim> bias{};
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = 0.5f - 0.1f * static_cast<float>(i);
  const rotary_tensor q = heads(by_c.q), k = heads(by_c.k), key_data = cache(by_c.keys),
                      scale = ones(&by_c.scale, 1), row = ones(bias.data(), kHeadDim);
  rotary_stored keys = rotary_stored_init(&key_data);
  keys.scale = &scale;
  const rotary_tensor indices =
      rotary_tensor_contiguous(slots_.data(), ROTARY_DTYPE_INT64, 1, &kTokens);
  const rotary_slots slots = rotary_slots_flat(&indices);
  const rotary_positions positions = rotary_positions_range(99);
  rotary_norm norm = rotary_norm_init(ROTARY_NORM_LAYER, 1e-5);
  norm.order = ROTARY_NORM_AFTER_ROTATION;
  norm.rotation = ROTARY_NORM_UNROTATE;
  ROTARY_EXPECT_OK(rotary_rope_norm_append_biased(c_rope_.get(), &q, nullptr, &k, nullptr, nullptr,
                                                  &row, &row, &row, &norm, &keys, nullptr, &slots,
                                                  &positions));
  const auto cpp_row = ConstTensorView::contiguous(bias.data(), DType::kFloat32, {kHeadDim});
  rope_.append(
      {.q = Operand(view(by_cpp.q)),
       .k = view(by_cpp.k),
       .keys = {.data = view(by_cpp.keys),
                .scale = ConstTensorView::contiguous(&by_cpp.scale, DType::kFloat32, {1})},
       .slots = Slots::flat(ConstTensorView::contiguous(slots_.data(), DType::kInt64, {kTokens})),
       .norm = {.kind = NormKind::kLayer,
                .eps = 1e-5,
                .order = NormOrder::kAfterRotation,
                .rotation = NormRotation::kInverse},
       .k_weight = cpp_row,
       .q_bias = cpp_row,
       .k_bias = cpp_row},
      Positions::range(99));
  EXPECT_TRUE(by_c == by_cpp);
  EXPECT_FALSE(by_c == Tensors());
}

TEST_F(CKvCache, RotatesTo) {
  for (const int inverse : {0, 1}) {
    Tensors x;
    std::vector<std::int8_t> by_c(kSize);
    std::vector<std::int8_t> by_cpp(kSize);
    const rotary_tensor in = heads(x.q);
    const rotary_tensor data =
        rotary_tensor_contiguous(by_c.data(), ROTARY_DTYPE_INT8, 3, kShape.data());
    const rotary_tensor scale = ones(&x.scale, 1);
    rotary_stored out = rotary_stored_init(&data);
    out.scale = &scale;
    const rotary_positions positions = rotary_positions_range(7);
    ROTARY_EXPECT_OK(rotary_rope_rotate_to(c_rope_.get(), &in, &out, inverse, &positions));
    const StoredTensor to{
        .data = TensorView::contiguous(by_cpp.data(), DType::kInt8, {kTokens, kHeads, kHeadDim}),
        .scale = ConstTensorView::contiguous(&x.scale, DType::kFloat32, {1})};
    inverse == 1 ? rope_.unrotate_to(view(x.q), to, Positions::range(7))
                 : rope_.rotate_to(view(x.q), to, Positions::range(7));
    EXPECT_EQ(by_c, by_cpp);
  }
}

TEST_F(CKvCache, RejectsBadArguments) {
  Tensors x;
  const rotary_tensor k = heads(x.k), data = cache(x.keys);
  const rotary_stored keys = rotary_stored_init(&data);
  const rotary_tensor indices =
      rotary_tensor_contiguous(slots_.data(), ROTARY_DTYPE_INT64, 1, &kTokens);
  const rotary_slots slots = rotary_slots_flat(&indices);
  const rotary_positions at = rotary_positions_range(0);
  const rotary_rope* rope = c_rope_.get();
  const auto rejected = [](rotary_status status, const char* part) {
    expect_failed(status, ROTARY_INVALID_ARGUMENT, "[", part);
  };
  const auto append = [&](const rotary_tensor* given_k, const rotary_stored* given_keys,
                          const rotary_slots* given_slots) {
    return rotary_rope_append(rope, nullptr, nullptr, given_k, nullptr, given_keys, nullptr,
                              given_slots, &at);
  };
  rejected(append(nullptr, &keys, &slots), "k must not be NULL");
  rejected(append(&k, nullptr, &slots), "keys must not be NULL");
  rejected(append(&k, &keys, nullptr), "slots must not be NULL");
  rotary_stored bad = keys;
  bad.data = nullptr;
  rejected(append(&k, &bad, &slots), "keys.data must not be NULL");
  bad = keys;
  bad.use = 2;
  rejected(append(&k, &bad, &slots), "keys.use");
  rotary_slots bad_slots = slots;
  bad_slots.indices = nullptr;
  rejected(append(&k, &keys, &bad_slots), "slots.indices must not be NULL");
  bad_slots = slots;
  bad_slots.sequences = &indices;
  rejected(append(&k, &keys, &bad_slots), "slots.sequences need a block_table");
  rejected(rotary_rope_append(rope, nullptr, &k, &k, nullptr, &keys, nullptr, &slots, &at),
           "q_out must be NULL without q");
  rejected(rotary_rope_rotate_to(rope, &k, &keys, 2, &at), "inverse");
  slots_[0] = 12;
  rejected(append(&k, &keys, &slots), "slots must be below 12");
  rejected(rotary_rope_shift_cached(nullptr, &keys, &slots, &at), "rope must not be NULL");
  rejected(rotary_rope_rerotate_cached(rope, nullptr, &keys, &slots, &at), "to must not be NULL");
  EXPECT_TRUE(x == Tensors());
}

}  // namespace
}  // namespace rotary::kv_cache_test
