// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A call of Rope::append and what it must do: rotate(), then reference/stored.h, token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reference/elements.h"
#include "reference/stored.h"
#include "rotary/rope.h"

namespace rotary {

using reference::Elements;

enum class CacheLayout { kTokenMajor, kHeadMajor, kInterleaved };  // NHD, HND, k beside v
enum class ScaleKind { kNone, kTensor, kHead, kComputed, kGroups };
enum class QueryKind { kNone, kInPlace, kApart };
enum class SlotKind { kInt32, kInt64, kPaged, kShort };

struct AppendCase {
  DType type = DType::kFloat32;
  std::optional<DType> quantized{};  // of the caches
  ScaleKind scale = ScaleKind::kNone;
  ScaleUse use = ScaleUse::kDivide;
  CacheLayout layout = CacheLayout::kTokenMajor;
  QueryKind query = QueryKind::kInPlace;
  SlotKind slots = SlotKind::kInt64;
  NormKind norm = NormKind::kNone;
  std::int64_t batch = 1;
  std::int64_t tokens = 7;
  Pairing pairing = Pairing::kHalf;
  unsigned seed = 1;
  bool distinct_slots = false;  // otherwise some are repeated
  bool aligned = false;         // heads of whole 16-byte packs, and a larger head_dim

  DType stored() const { return quantized.value_or(type); }
};

inline std::string to_string(const AppendCase& c) {
  std::string text(name_of(c.type));
  text += " to ";
  text += name_of(c.stored());
  for (const int choice :
       {static_cast<int>(c.scale), static_cast<int>(c.use), static_cast<int>(c.layout),
        static_cast<int>(c.query), static_cast<int>(c.slots), static_cast<int>(c.norm)}) {
    text += " " + std::to_string(choice);
  }
  return text + " batch " + std::to_string(c.batch) + " tokens " + std::to_string(c.tokens) +
         " seed " + std::to_string(c.seed) + (c.aligned ? " aligned" : "");
}

/// The memory of a case, and its expected content.
class AppendFixture {
 public:
  static constexpr std::int64_t kQueryHeads = 3, kHeads = 2;
  static constexpr std::int64_t kBlocks = 6, kBlockSize = 4, kGroups = 4;

  explicit AppendFixture(const AppendCase& c)
      : case_(c),
        rope_(make_frequencies({.rotary_dim = c.aligned ? 32 : 16, .theta = 1e4}),
              {.head_dim = head_dim(), .rotary_offset = c.aligned ? 16 : 4, .pairing = c.pairing}),
        q_(c.type, size(kQueryHeads, head_dim())),
        q_out_(c.type, size(kQueryHeads, head_dim())),
        k_(c.type, size(kHeads, head_dim())),
        v_(c.type, size(kHeads, value_dim())),
        weight_(DType::kFloat32, head_dim()),
        pool_(pool_bytes(), std::byte{0x55}),
        computed_(2 * kBlocks * kBlockSize * kHeads * kGroups, 7.5f),
        scales_{0.37f, 4.0f} {
    std::mt19937 random(c.seed);
    std::normal_distribution<double> normal(0.0, 3.0);
    for (Elements* x : {&q_, &k_, &v_, &weight_}) {
      for (std::size_t i = 0; i < x->size(); ++i) x->set(i, normal(random));
    }
    make_slots(random);
    expect();
  }

  void run() { rope_.append(arguments(), positions()); }

  KvAppend arguments() {
    KvAppend a{.k = view(k_, kHeads, head_dim()),
               .v = view(v_, kHeads, value_dim()),
               .keys = stored(0),
               .values = stored(1),
               .slots = slots()};
    if (case_.query == QueryKind::kInPlace) a.q = Operand(view(q_, kQueryHeads, head_dim()));
    if (case_.query == QueryKind::kApart) {
      a.q = Operand(view(q_, kQueryHeads, head_dim()), view(q_out_, kQueryHeads, head_dim()));
    }
    a.norm.kind = case_.norm;
    if (case_.norm != NormKind::kNone) a.k_weight = weight();
    return a;
  }
  Positions positions() const { return Positions::range(999'000); }
  const Rope& rope() const { return rope_; }
  const Elements& result_q() const { return case_.query == QueryKind::kApart ? q_out_ : q_; }
  const Elements& expected_q() const { return expected_q_; }
  const std::vector<std::byte>& pool() const { return pool_; }
  const std::vector<std::byte>& expected_pool() const { return expected_pool_; }
  const std::vector<float>& computed() const { return computed_; }
  const std::vector<float>& expected_computed() const { return expected_computed_; }
  /// Keys (0) or values (1).
  StoredTensor stored(int which);

  /// The memory of arguments(). A run on a GPU copies its results back into it.
  std::vector<std::span<std::byte>> regions() {
    const auto bytes = [](auto& x) { return std::as_writable_bytes(std::span(x)); };
    std::vector<std::span<std::byte>> all;
    for (Elements* x : {&q_, &q_out_, &k_, &v_, &weight_}) {
      all.emplace_back(static_cast<std::byte*>(x->data()), x->size_in_bytes());
    }
    for (const auto& region : {bytes(pool_), bytes(computed_), bytes(scales_), bytes(slots32_),
                               bytes(table_), bytes(slots64_), bytes(indices_)}) {
      all.push_back(region);
    }
    return all;
  }

 private:
  std::int64_t head_dim() const { return case_.aligned ? 64 : 24; }
  std::int64_t value_dim() const { return case_.aligned ? 48 : 20; }
  std::int64_t dim(int which) const { return which == 0 ? head_dim() : value_dim(); }
  std::size_t size(std::int64_t heads, std::int64_t n) const {
    return static_cast<std::size_t>(case_.batch * case_.tokens * heads * n);
  }
  std::size_t pool_bytes() const {
    return static_cast<std::size_t>(kBlocks * kBlockSize * kHeads * (head_dim() + value_dim())) *
           size_of(case_.stored());
  }
  TensorView view(Elements& x, std::int64_t heads, std::int64_t n) {
    if (case_.batch > 1) {
      return TensorView::contiguous(x.data(), x.dtype(), {case_.batch, case_.tokens, heads, n});
    }
    return TensorView::contiguous(x.data(), x.dtype(), {case_.tokens, heads, n});
  }
  ConstTensorView weight() {
    return TensorView::contiguous(weight_.data(), DType::kFloat32, {head_dim()});
  }
  Slots slots() const {
    const auto matrix = [&](const auto& values, DType type) {
      return ConstTensorView::contiguous(values.data(), type, {case_.batch, case_.tokens});
    };
    switch (case_.slots) {
      case SlotKind::kInt32:
        return Slots::flat(matrix(slots32_, DType::kInt32));
      case SlotKind::kInt64:
        return Slots::flat(matrix(slots64_, DType::kInt64));
      case SlotKind::kShort:
        return Slots::flat(ConstTensorView::contiguous(slots64_.data(), DType::kInt64,
                                                       {case_.batch * case_.tokens - 2}));
      case SlotKind::kPaged:
        break;
    }
    return Slots::paged(ConstTensorView::contiguous(
                            table_.data(), DType::kInt32,
                            {case_.batch, static_cast<std::int64_t>(table_.size()) / case_.batch}),
                        matrix(indices_, DType::kInt64));
  }
  void make_slots(std::mt19937& random);
  void expect();
  void expect_rotation();
  void expect_head(int which, std::size_t token, std::int64_t head, const Elements& from);

  AppendCase case_;
  Rope rope_;
  Elements q_, q_out_, k_, v_, weight_;
  std::vector<std::byte> pool_;
  std::vector<float> computed_;
  std::vector<float> scales_;
  std::vector<std::int32_t> slots32_, table_;
  std::vector<std::int64_t> slots64_, indices_, resolved_;
  Elements expected_q_{DType::kFloat32, 0};
  std::vector<std::byte> expected_pool_;
  std::vector<float> expected_computed_;
};

inline StoredTensor AppendFixture::stored(int which) {
  const std::int64_t n = dim(which);
  const std::int64_t both = head_dim() + value_dim();
  TensorView data{pool_.data(), case_.stored(), 4, {kBlocks, kBlockSize, kHeads, n}, {}, {}};
  std::int64_t offset = which == 0 ? 0 : kBlocks * kBlockSize * kHeads * head_dim();
  switch (case_.layout) {
    case CacheLayout::kTokenMajor:
      data.strides = {kBlockSize * kHeads * n, kHeads * n, n, 1};
      break;
    case CacheLayout::kHeadMajor:
      data.strides = {kBlockSize * kHeads * n, n, kBlockSize * n, 1};
      break;
    case CacheLayout::kInterleaved:
      data.strides = {kBlockSize * kHeads * both, both, kBlockSize * both, 1};
      offset = which == 0 ? 0 : head_dim();
  }
  data.data = pool_.data() + static_cast<std::size_t>(offset) * size_of(case_.stored());
  StoredTensor store{.data = data, .use = case_.use};
  if (case_.scale == ScaleKind::kTensor || case_.scale == ScaleKind::kHead) {
    store.scale = ConstTensorView::contiguous(scales_.data(), DType::kFloat32,
                                              {case_.scale == ScaleKind::kHead ? kHeads : 1});
  }
  float* const computed =
      computed_.data() + (which == 0 ? 0 : kBlocks * kBlockSize * kHeads * kGroups);
  if (case_.scale == ScaleKind::kComputed) {
    store.computed_scales =
        TensorView::contiguous(computed, DType::kFloat32, {kBlocks, kBlockSize, kHeads});
  } else if (case_.scale == ScaleKind::kGroups) {
    store.computed_scales =
        TensorView::contiguous(computed, DType::kFloat32, {kBlocks, kBlockSize, kHeads, kGroups});
  }
  return store;
}

/// Slots at random, some -1, some repeated. By pages each sequence has blocks of its own.
inline void AppendFixture::make_slots(std::mt19937& random) {
  const auto all = static_cast<std::size_t>(case_.batch * case_.tokens);
  std::uniform_int_distribution<std::int64_t> any(-1, kBlocks * kBlockSize - 1);
  std::vector<bool> used(static_cast<std::size_t>(kBlocks * kBlockSize));
  const auto is_free = [&](std::int64_t slot) {
    if (slot < 0 || !case_.distinct_slots) return true;
    const bool was_used = used[static_cast<std::size_t>(slot)];
    used[static_cast<std::size_t>(slot)] = true;
    return !was_used;
  };
  for (std::size_t i = 0; i < all; ++i) {
    const std::int64_t slot = any(random);
    slots64_.push_back(is_free(slot) ? slot : -1);
  }
  used.assign(used.size(), false);
  slots32_.assign(slots64_.begin(), slots64_.end());
  resolved_ = slots64_;
  if (case_.slots == SlotKind::kShort) resolved_[all - 1] = resolved_[all - 2] = -1;
  if (case_.slots != SlotKind::kPaged) return;
  for (std::int32_t b = 0; b < kBlocks; ++b) table_.push_back((b * 5 + 2) % kBlocks);
  const std::int64_t pages = kBlocks / case_.batch;
  table_.resize(static_cast<std::size_t>(pages * case_.batch));
  std::uniform_int_distribution<std::int64_t> index(-1, pages * kBlockSize - 1);
  for (std::size_t i = 0; i < all; ++i) {
    const std::int64_t p = index(random);
    const std::int64_t row = static_cast<std::int64_t>(i) / case_.tokens;
    resolved_[i] = -1;
    if (p >= 0) {
      const auto entry = static_cast<std::size_t>(row * pages + p / kBlockSize);
      const std::int64_t slot = table_[entry] * kBlockSize + p % kBlockSize;
      if (is_free(slot)) resolved_[i] = slot;
    }
    indices_.push_back(resolved_[i] < 0 ? -1 : p);
  }
}

inline void AppendFixture::expect_rotation() {
  expected_q_ = q_;
  Elements k = k_;
  if (case_.norm == NormKind::kNone) {
    rope_.rotate({view(expected_q_, kQueryHeads, head_dim()), view(k, kHeads, head_dim())},
                 positions());
  } else {
    rope_.norm_rotate({Operand(view(expected_q_, kQueryHeads, head_dim()))}, {.kind = case_.norm},
                      positions());
    rope_.norm_rotate({{view(k, kHeads, head_dim()), weight()}}, {.kind = case_.norm}, positions());
  }
  if (case_.query == QueryKind::kNone) expected_q_ = q_;
  const auto all = static_cast<std::size_t>(case_.batch * case_.tokens);
  for (std::size_t t = 0; t < all; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      expect_head(0, t, h, k);
      expect_head(1, t, h, v_);
    }
  }
}

inline void AppendFixture::expect() {
  const std::vector<std::byte> pool = pool_;
  const std::vector<float> computed = computed_;
  expect_rotation();
  expected_pool_ = pool_;
  expected_computed_ = computed_;
  pool_ = pool;
  computed_ = computed;
}

/// Stores a head of a token into the memory itself, which expect() restores.
inline void AppendFixture::expect_head(int which, std::size_t token, std::int64_t head,
                                       const Elements& from) {
  const std::int64_t slot = resolved_[token];
  if (slot < 0) return;
  const StoredTensor store = stored(which);
  const TensorView& data = store.data;
  const auto n = static_cast<std::size_t>(dim(which));
  const std::int64_t first = slot / kBlockSize * data.strides[0] +
                             slot % kBlockSize * data.strides[1] + head * data.strides[2];
  auto* const to =
      static_cast<std::byte*>(data.data) + static_cast<std::size_t>(first) * size_of(data.dtype);
  const std::size_t begin =
      (token * static_cast<std::size_t>(kHeads) + static_cast<std::size_t>(head)) * n;
  if (!case_.quantized) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t bits = from.bits(begin + i);
      std::memcpy(to + i * size_of(data.dtype), &bits, size_of(data.dtype));
    }
    return;
  }
  const std::size_t groups = case_.scale == ScaleKind::kGroups ? kGroups : 1;
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<float> values;
    for (std::size_t i = g * n / groups; i < (g + 1) * n / groups; ++i) {
      values.push_back(static_cast<float>(from.get(begin + i)));
    }
    float scale = 1.0f;
    if (case_.scale == ScaleKind::kTensor) scale = scales_[0];
    if (case_.scale == ScaleKind::kHead) scale = scales_[static_cast<std::size_t>(head)];
    if (store.computed_scales.rank != 0) {
      scale = reference::computed_scale(data.dtype, case_.use, values);
      static_cast<float*>(
          store.computed_scales.data)[static_cast<std::size_t>((slot * kHeads + head) *
                                                               static_cast<std::int64_t>(groups)) +
                                      g] = scale;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      to[g * n / groups + i] = static_cast<std::byte>(
          reference::quantized(data.dtype, reference::scaled(case_.use, values[i], scale)));
    }
  }
}

}  // namespace rotary
