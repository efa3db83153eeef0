// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The memory of an AppendCase, and what the call must do: norm_rotate() or rotate(), then
// reference/stored.h, token by token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "reference/elements.h"
#include "reference/stored.h"
#include "rope/append_case.h"
#include "rotary/rope.h"

namespace rotary {

using reference::Elements;

/// Frequencies of all axes of a case.
inline Frequencies frequencies_of(const AppendCase& c) {
  Frequencies f = make_frequencies({.rotary_dim = c.shape.rotary_dim, .theta = 1e4});
  if (c.axes <= 1) return f;
  Frequencies all{.pairs = f.pairs, .axes = c.axes};
  for (std::int64_t i = 0; i < f.pairs; ++i) {
    for (std::int64_t a = 0; a < c.axes; ++a) {
      all.values.push_back(a == i % c.axes ? f.values[static_cast<std::size_t>(i)] : 0.0);
    }
  }
  return all;
}

/// The memory of a case, and its expected content.
class AppendFixture {
 public:
  static constexpr std::int64_t kGroups = 4;

  explicit AppendFixture(const AppendCase& c)
      : case_(c),
        rope_(frequencies_of(c), {.head_dim = c.shape.head_dim,
                                  .rotary_offset = c.shape.rotary_offset,
                                  .pairing = c.pairing}),
        q_(c.type, size(c.query_heads, head_dim())),
        q_out_(c.type, size(c.query_heads, head_dim())),
        k_(c.type, size(c.heads, head_dim())),
        v_(c.type, size(c.heads, value_dim())),
        weight_(c.weight_type,
                static_cast<std::size_t>(std::max(c.query_heads, c.heads) * head_dim())),
        bias_(c.weight_type, weight_.size()),
        pool_(pool_bytes(), std::byte{0x55}),
        computed_(static_cast<std::size_t>(2 * c.blocks * c.block_size * c.heads * kGroups), 7.5f) {
    std::mt19937 random(c.seed);
    std::normal_distribution<double> normal(0.0, 3.0);
    for (Elements* x : {&q_, &k_, &v_, &weight_, &bias_}) {
      for (std::size_t i = 0; i < x->size(); ++i) x->set(i, normal(random));
    }
    for (std::int64_t h = 0; h < c.heads; ++h) scales_.push_back(h % 2 == 0 ? 0.37f : 4.0f);
    make_slots(random);
    std::uniform_int_distribution<std::int64_t> position(-1000, 1'000'000'000);
    for (std::int64_t i = 0; i < c.axes * all(); ++i) ids_.push_back(position(random));
    expect();
  }

  void run() { rope_.append(arguments(), positions()); }

  KvAppend arguments() {
    KvAppend a{.k = view(k_, case_.heads, head_dim()),
               .v = view(v_, case_.heads, value_dim()),
               .keys = stored(0),
               .values = stored(1),
               .slots = slots()};
    if (case_.query != QueryKind::kNone) {
      const TensorView q = view(q_, case_.query_heads, head_dim());
      a.q = case_.query == QueryKind::kInPlace
                ? Operand(q)
                : Operand(q, view(q_out_, case_.query_heads, head_dim()));
    }
    a.norm = case_.norm;
    if (case_.norm.kind == NormKind::kNone) return a;
    a.k_weight = row(weight_, case_.heads);
    if (case_.norm.kind == NormKind::kLayer) a.k_bias = row(bias_, case_.heads);
    if (case_.query == QueryKind::kNone || !weighs_queries()) return a;
    a.q_weight = row(weight_, case_.query_heads);
    if (case_.norm.kind == NormKind::kLayer) a.q_bias = row(bias_, case_.query_heads);
    return a;
  }
  Positions positions() const {
    if (case_.axes == 0) return Positions::range(999'000);
    return Positions::ids(ConstTensorView::contiguous(ids_.data(), DType::kInt64,
                                                      {case_.axes, case_.batch, case_.tokens}));
  }
  const Rope& rope() const { return rope_; }
  const Elements& k() const { return k_; }
  const Elements& v() const { return v_; }
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
    std::vector<std::span<std::byte>> regions;
    for (Elements* x : {&q_, &q_out_, &k_, &v_, &weight_, &bias_}) {
      regions.emplace_back(static_cast<std::byte*>(x->data()), x->size_in_bytes());
    }
    for (const auto& region :
         {bytes(pool_), bytes(computed_), bytes(scales_), bytes(slots32_), bytes(table32_),
          bytes(table_), bytes(slots64_), bytes(indices_), bytes(sequences_), bytes(ids_)}) {
      regions.push_back(region);
    }
    return regions;
  }

 private:
  std::int64_t head_dim() const { return case_.shape.head_dim; }
  std::int64_t value_dim() const { return case_.shape.value_dim; }
  std::int64_t dim(int which) const { return which == 0 ? head_dim() : value_dim(); }
  std::int64_t all() const { return case_.batch * case_.tokens; }
  std::int64_t capacity() const { return case_.blocks * case_.block_size; }
  /// Without it queries have a norm without a weight.
  bool weighs_queries() const { return case_.seed % 2 == 0; }
  /// Elements from a token of a tensor to the next, unless heads come first.
  std::int64_t row_size(std::int64_t heads, std::int64_t n) const {
    return heads * n + (case_.inputs == InputLayout::kGaps ? 2 * n : 0);
  }
  std::size_t size(std::int64_t heads, std::int64_t n) const {
    return static_cast<std::size_t>(all() * row_size(heads, n));
  }
  std::size_t bytes_of_store(int which) const {
    return static_cast<std::size_t>(capacity() * case_.heads * dim(which)) *
           size_of(case_.stored(which));
  }
  std::size_t pool_bytes() const { return bytes_of_store(0) + bytes_of_store(1); }
  TensorView view(Elements& x, std::int64_t heads, std::int64_t n) const {
    const std::int64_t tokens = case_.tokens;
    const bool heads_first = case_.inputs == InputLayout::kHeadsFirst;
    const std::int64_t row = row_size(heads, n);
    const Dims strides{tokens * row, heads_first ? n : row, heads_first ? tokens * n : n, 1};
    if (case_.batch > 1) return {x.data(), x.dtype(), 4, {case_.batch, tokens, heads, n}, strides};
    return {x.data(), x.dtype(), 3, {tokens, heads, n}, {strides[1], strides[2], strides[3]}};
  }
  ConstTensorView row(Elements& x, std::int64_t heads) const {
    const std::int64_t n = case_.norm.scope == NormScope::kHead ? 1 : heads;
    return TensorView::contiguous(x.data(), x.dtype(), {n * head_dim()});
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
        return Slots::flat(
            ConstTensorView::contiguous(slots64_.data(), DType::kInt64, {all() - 2}));
      case SlotKind::kPaged:
      case SlotKind::kSequences:
        break;
    }
    const std::int64_t rows = table_rows();
    const void* const table = case_.table_type == DType::kInt32
                                  ? static_cast<const void*>(table32_.data())
                                  : static_cast<const void*>(table_.data());
    const auto pages =
        ConstTensorView::contiguous(table, case_.table_type, {rows, case_.blocks / rows});
    const ConstTensorView indices = matrix(indices_, DType::kInt64);
    return case_.slots == SlotKind::kPaged
               ? Slots::paged(pages, indices)
               : Slots::paged(pages, indices, matrix(sequences_, DType::kInt32));
  }
  /// Sequences: the batch rows, or three.
  std::int64_t table_rows() const { return case_.slots == SlotKind::kPaged ? case_.batch : 3; }
  void make_slots(std::mt19937& random);
  void make_pages(std::mt19937& random);
  void expect();
  void expect_rotation();
  void expect_head(int which, std::int64_t token, std::int64_t head, const Elements& from);

  AppendCase case_;
  Rope rope_;
  Elements q_, q_out_, k_, v_, weight_, bias_;
  std::vector<std::byte> pool_;
  std::vector<float> computed_;
  std::vector<float> scales_;
  std::vector<std::int32_t> slots32_, table32_, sequences_;
  std::vector<std::int64_t> slots64_, indices_, resolved_, table_, ids_;
  Elements expected_q_{DType::kFloat32, 0};
  std::vector<std::byte> expected_pool_;
  std::vector<float> expected_computed_;
};

inline StoredTensor AppendFixture::stored(int which) {
  const std::int64_t n = dim(which);
  const std::int64_t heads = case_.heads;
  const std::int64_t block = case_.block_size;
  const std::int64_t both = head_dim() + value_dim();
  const DType type = case_.stored(which);
  TensorView data{pool_.data(), type, 4, {case_.blocks, block, heads, n}, {}, {}};
  std::size_t offset = which == 0 ? 0 : bytes_of_store(0);
  // Keys beside values have one type.
  const bool apart = case_.stored(0) != case_.stored(1);
  switch (apart && case_.layout == CacheLayout::kInterleaved ? CacheLayout::kHeadMajor
                                                             : case_.layout) {
    case CacheLayout::kTokenMajor:
      data.strides = {block * heads * n, heads * n, n, 1};
      break;
    case CacheLayout::kHeadMajor:
      data.strides = {block * heads * n, n, block * n, 1};
      break;
    case CacheLayout::kInterleaved:
      data.strides = {block * heads * both, both, block * both, 1};
      offset = which == 0 ? 0 : static_cast<std::size_t>(head_dim()) * size_of(type);
  }
  data.data = pool_.data() + offset;
  StoredTensor store{.data = data, .use = case_.use};
  const bool is_quantized = is_float8(type) || type == DType::kInt8;
  if (!is_quantized) return store;
  if (case_.scale == ScaleKind::kTensor || case_.scale == ScaleKind::kHead) {
    store.scale = ConstTensorView::contiguous(scales_.data(), DType::kFloat32,
                                              {case_.scale == ScaleKind::kHead ? heads : 1});
  }
  float* const computed = computed_.data() + (which == 0 ? 0 : capacity() * heads * kGroups);
  if (case_.scale == ScaleKind::kComputed) {
    store.computed_scales =
        TensorView::contiguous(computed, DType::kFloat32, {case_.blocks, block, heads});
  } else if (case_.scale == ScaleKind::kGroups) {
    store.computed_scales =
        TensorView::contiguous(computed, DType::kFloat32, {case_.blocks, block, heads, kGroups});
  }
  return store;
}

/// Slots at random, some -1, some repeated.
inline void AppendFixture::make_slots(std::mt19937& random) {
  std::uniform_int_distribution<std::int64_t> any(-1, capacity() - 1);
  std::vector<bool> used(static_cast<std::size_t>(capacity()));
  for (std::int64_t i = 0; i < all(); ++i) {
    std::int64_t slot = any(random);
    if (slot >= 0 && case_.distinct_slots) {
      if (used[static_cast<std::size_t>(slot)])
        slot = -1;
      else
        used[static_cast<std::size_t>(slot)] = true;
    }
    slots64_.push_back(slot);
  }
  slots32_.assign(slots64_.begin(), slots64_.end());
  resolved_ = slots64_;
  if (case_.slots == SlotKind::kShort) {
    for (const std::size_t i : {resolved_.size() - 1, resolved_.size() - 2}) resolved_[i] = -1;
  }
  if (case_.slots == SlotKind::kPaged || case_.slots == SlotKind::kSequences) make_pages(random);
}

/// Each sequence has blocks of its own, in any order.
inline void AppendFixture::make_pages(std::mt19937& random) {
  const std::int64_t rows = table_rows();
  const std::int64_t pages = case_.blocks / rows;
  for (std::int64_t b = 0; b < case_.blocks; ++b) table_.push_back(b);
  std::shuffle(table_.begin(), table_.end(), random);
  table32_.assign(table_.begin(), table_.end());
  std::uniform_int_distribution<std::int64_t> index(-1, pages * case_.block_size - 1);
  std::uniform_int_distribution<std::int32_t> sequence(0, static_cast<std::int32_t>(rows) - 1);
  std::vector<bool> used(static_cast<std::size_t>(capacity()));
  for (std::int64_t i = 0; i < all(); ++i) {
    std::int64_t p = index(random);
    sequences_.push_back(sequence(random));
    const std::int64_t row = case_.slots == SlotKind::kPaged ? i / case_.tokens : sequences_.back();
    std::int64_t slot = -1;
    if (p >= 0) {
      const auto entry = static_cast<std::size_t>(row * pages + p / case_.block_size);
      slot = table_[entry] * case_.block_size + p % case_.block_size;
      if (case_.distinct_slots && used[static_cast<std::size_t>(slot)]) slot = -1;
    }
    if (slot < 0)
      p = -1;
    else
      used[static_cast<std::size_t>(slot)] = true;
    resolved_[static_cast<std::size_t>(i)] = slot;
    indices_.push_back(p);
  }
}

inline void AppendFixture::expect_rotation() {
  const bool apart = case_.query == QueryKind::kApart;
  expected_q_ = apart ? q_out_ : q_;
  Elements k = k_;
  KvAppend a = arguments();
  const TensorView to = view(expected_q_, case_.query_heads, head_dim());
  const Operand q = apart ? Operand(view(q_, case_.query_heads, head_dim()), to) : Operand(to);
  const Operand keys = view(k, case_.heads, head_dim());
  if (case_.norm.kind == NormKind::kNone) {
    const bool inverts = case_.norm.rotation == NormRotation::kInverse;
    for (const Operand& x : {q, keys}) {
      if (inverts)
        rope_.unrotate(x, positions());
      else
        rope_.rotate(x, positions());
    }
  } else {
    rope_.norm_rotate({{q, a.q_weight, a.q_bias}}, case_.norm, positions());
    rope_.norm_rotate({{keys, a.k_weight, a.k_bias}}, case_.norm, positions());
  }
  if (case_.query == QueryKind::kNone) expected_q_ = q_;
  for (std::int64_t t = 0; t < all(); ++t) {
    for (std::int64_t h = 0; h < case_.heads; ++h) {
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
inline void AppendFixture::expect_head(int which, std::int64_t token, std::int64_t head,
                                       const Elements& from) {
  const std::int64_t slot = resolved_[static_cast<std::size_t>(token)];
  if (slot < 0) return;
  const StoredTensor store = stored(which);
  const TensorView& data = store.data;
  const auto n = static_cast<std::size_t>(dim(which));
  const std::int64_t first = slot / case_.block_size * data.strides[0] +
                             slot % case_.block_size * data.strides[1] + head * data.strides[2];
  auto* const to =
      static_cast<std::byte*>(data.data) + static_cast<std::size_t>(first) * size_of(data.dtype);
  const std::int64_t row = row_size(case_.heads, dim(which));
  const auto begin =
      static_cast<std::size_t>(case_.inputs == InputLayout::kHeadsFirst
                                   ? token / case_.tokens * case_.tokens * row +
                                         (head * case_.tokens + token % case_.tokens) * dim(which)
                                   : token * row + head * dim(which));
  if (data.dtype == case_.type) {
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
          store.computed_scales.data)[static_cast<std::size_t>((slot * case_.heads + head) *
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
