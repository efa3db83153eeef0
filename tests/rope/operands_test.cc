// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Several tensors in one call give the bits of as many calls, for any layout; rejected calls.

#include "rotary/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rope/placed_tensor.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::operands_test {
namespace {

constexpr std::int64_t kHeadDim = 40;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 5;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

Sizes sizes(std::int64_t heads) { return {kBatch, kTokens, heads, kHeadDim}; }

Rope make_rope(Pairing output = Pairing::kHalf) {
  return Rope(
      make_frequencies(
          {.rotary_dim = 34, .theta = 1e4, .scaling = Yarn{.factor = 4, .original_context = 64}}),
      {.head_dim = kHeadDim,
       .rotary_offset = 3,
       .pairing = Pairing::kInterleaved,
       .output_pairing = output});
}
Positions positions() { return Positions::range(131069); }

/// The functions that take several tensors.
struct Call {
  std::string name;
  std::function<void(const Rope&, const Operands&)> run;
};
std::vector<Call> calls() {
  return {{"rotate", [](const Rope& r, const Operands& x) { r.rotate(x, positions()); }},
          {"unrotate", [](const Rope& r, const Operands& x) { r.unrotate(x, positions()); }},
          {"adjoint", [](const Rope& r, const Operands& x) { r.adjoint(x, positions()); }},
          {"shift", [](const Rope& r, const Operands& x) { r.shift(x, Positions::at(-9)); }},
          {"rerotate", [](const Rope& r, const Operands& x) {
             rerotate(x, r, make_rope(Pairing::kInterleaved), positions());
           }}};
}

/// One tensor rotated alone, contiguous and in place.
std::vector<std::uint64_t> alone(const Call& call, const PlacedTensor& x) {
  PlacedTensor copy(Layout::kContiguous, x.view().dtype, x.sizes(), 0);
  copy.assign(x);
  call.run(make_rope(), copy.view());
  return copy.bits();
}

// Grouped-query attention: q has more heads than k.
TEST(Operands, DifferentHeads) {
  for (const Call& call : calls()) {
    for (const DType dtype : kTypes) {
      const PlacedTensor q(Layout::kContiguous, dtype, sizes(6), 1);
      const PlacedTensor k(Layout::kHeadsFirst, dtype, sizes(2), 2);
      const PlacedTensor one(Layout::kContiguous, dtype, sizes(1), 3);
      const PlacedTensor none(Layout::kContiguous, dtype, sizes(0), 4);
      const auto q_alone = alone(call, q);
      const auto k_alone = alone(call, k);
      const auto one_alone = alone(call, one);
      call.run(make_rope(), {q.view(), k.view(), none.view(), one.view()});
      EXPECT_EQ(q.bits(), q_alone) << call.name;
      EXPECT_EQ(k.bits(), k_alone) << call.name;
      EXPECT_EQ(one.bits(), one_alone) << call.name;
    }
  }
}

// Types may differ in one call, and one tensor may be in place and the next not.
TEST(Operands, DifferentTypesInPlaceAndNot) {
  for (const Call& call : calls()) {
    const PlacedTensor a(Layout::kContiguous, DType::kFloat32, sizes(3), 1);
    const PlacedTensor b(Layout::kPackedQkv, DType::kBFloat16, sizes(2), 2);
    const PlacedTensor c(Layout::kBackwards, DType::kFloat64, sizes(1), 3);
    const PlacedTensor d(Layout::kInnerStride2, DType::kFloat16, sizes(4), 4);
    const PlacedTensor b_out(Layout::kHeadsFirst, DType::kBFloat16, sizes(2), 5);
    const PlacedTensor c_out(Layout::kContiguous, DType::kFloat64, sizes(1), 6);
    const auto a_alone = alone(call, a);
    const auto b_alone = alone(call, b);
    const auto c_alone = alone(call, c);
    const auto d_alone = alone(call, d);
    const auto b_before = b.snapshot();
    const auto c_before = c.snapshot();
    call.run(make_rope(), {a.view(), {b.view(), b_out.view()}, {c.view(), c_out.view()}, d.view()});
    EXPECT_EQ(a.bits(), a_alone) << call.name;
    EXPECT_EQ(b_out.bits(), b_alone) << call.name;
    EXPECT_EQ(c_out.bits(), c_alone) << call.name;
    EXPECT_EQ(d.bits(), d_alone) << call.name;
    EXPECT_TRUE(b.memory() == b_before) << call.name;
    EXPECT_TRUE(c.memory() == c_before) << call.name;
  }
}

// A span of operands, one operand, and the maximum number.
TEST(Operands, ListsOfAnyLength) {
  const Rope rope = make_rope();
  const Call call = calls()[0];
  std::vector<std::unique_ptr<PlacedTensor>> tensors;
  std::vector<Operand> list;
  std::vector<std::vector<std::uint64_t>> expected;
  for (unsigned i = 0; i < kMaxOperands; ++i) {
    tensors.push_back(
        std::make_unique<PlacedTensor>(Layout::kContiguous, kTypes[i % 4], sizes(1 + i % 3), i));
    list.emplace_back(tensors.back()->view());
    expected.push_back(alone(call, *tensors.back()));
  }
  rope.rotate(std::span<const Operand>(list), positions());
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(tensors[i]->bits(), expected[i]) << i;

  const PlacedTensor x(Layout::kContiguous, DType::kFloat32, sizes(2), 9);
  const PlacedTensor out(Layout::kHeadsFirst, DType::kFloat32, sizes(2), 10);
  const auto x_alone = alone(call, x);
  rope.rotate(Operand(x.view(), out.view()), positions());
  EXPECT_EQ(out.bits(), x_alone);
  rope.rotate({Operand(x.view())}, positions());
  EXPECT_EQ(x.bits(), x_alone);
}

TEST(Operands, EmptyLists) {
  for (const Call& call : calls()) {
    EXPECT_NO_THROW(call.run(make_rope(), std::span<const Operand>())) << call.name;
  }
}

// ---- Packed query-key-value memory -------------------------------------------------------------

/// q, k and v in one buffer: its size, and the offset and strides of each part.
struct Packed {
  std::string name;
  std::int64_t elements;
  std::int64_t heads;     // of q
  std::int64_t kv_heads;  // of k and v
  std::int64_t first[3];  // q, k, v
  Dims strides;           // batch, token, head, 1
};

std::vector<Packed> packed_layouts() {
  const std::int64_t h = 4;  // heads
  const std::int64_t d = kHeadDim;
  const std::int64_t t = kTokens;
  const std::int64_t all = kBatch * t * 3 * h * d;
  return {
      {"[b, t, 3, h, d]", all, h, h, {0, h * d, 2 * h * d}, {t * 3 * h * d, 3 * h * d, d, 1}},
      {"[b, t, h + 2 kv, d]",
       kBatch * t * (h + 4) * d,
       h,
       2,
       {0, h * d, (h + 2) * d},
       {t * (h + 4) * d, (h + 4) * d, d, 1}},
      {"[b, 3, h, t, d]", all, h, h, {0, h * t * d, 2 * h * t * d}, {3 * h * t * d, d, t * d, 1}},
      {"[b, t, h, 3, d]", all, h, h, {0, d, 2 * d}, {t * 3 * h * d, 3 * h * d, 3 * d, 1}},
      {"[b, t, h, d, 3]", all, h, h, {0, 1, 2}, {t * 3 * h * d, 3 * h * d, 3 * d, 3}},
  };
}

/// The buffer of a layout, filled, and its parts.
class PackedBuffer {
 public:
  PackedBuffer(Packed packed, DType dtype)
      : packed_(std::move(packed)), memory_(dtype, static_cast<std::size_t>(packed_.elements)) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      memory_.set(i, 0.25 + static_cast<double>(i % 97) / 97.0);
    }
  }
  std::int64_t heads(int part) const { return part == 0 ? packed_.heads : packed_.kv_heads; }
  TensorView view(int part) {
    return {memory_.data(static_cast<std::size_t>(packed_.first[part])),
            memory_.dtype(),
            4,
            {kBatch, kTokens, heads(part), kHeadDim},
            packed_.strides,
            {}};
  }
  const reference::Elements& memory() const { return memory_; }

 private:
  Packed packed_;
  reference::Elements memory_;
};

// q and k are rotated in place; v keeps its bits.
TEST(PackedQkv, InPlace) {
  for (const Call& call : calls()) {
    for (const Packed& packed : packed_layouts()) {
      for (const DType dtype : kTypes) {
        PackedBuffer together(packed, dtype);
        PackedBuffer apart(packed, dtype);
        call.run(make_rope(), {together.view(0), together.view(1)});
        for (const int part : {0, 1}) call.run(make_rope(), apart.view(part));
        EXPECT_TRUE(together.memory() == apart.memory()) << call.name << ' ' << packed.name;

        // Each as in memory of its own.
        PackedBuffer before(packed, dtype);
        for (const int part : {0, 1, 2}) {
          const PlacedTensor got(Layout::kContiguous, dtype, sizes(together.heads(part)), 1);
          const PlacedTensor wanted(Layout::kContiguous, dtype, sizes(together.heads(part)), 2);
          const Rope still({.pairs = 1, .values = {0.0}},
                           {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
          still.rotate(together.view(part), got.view(), Positions::range());   // a copy
          still.rotate(before.view(part), wanted.view(), Positions::range());  // a copy
          if (part < 2) call.run(make_rope(), wanted.view());
          EXPECT_EQ(got.bits(), wanted.bits()) << call.name << ' ' << packed.name << ' ' << part;
        }
      }
    }
  }
}

// From the packed buffer into separate tensors, and into parts of it that are not read.
TEST(PackedQkv, OutOfPlace) {
  const Rope rope = make_rope();
  for (const Packed& packed : packed_layouts()) {
    PackedBuffer buffer(packed, DType::kFloat32);
    const reference::Elements before = buffer.memory();
    const PlacedTensor q(Layout::kContiguous, DType::kFloat32, sizes(buffer.heads(0)), 1);
    const PlacedTensor k(Layout::kHeadsFirst, DType::kFloat32, sizes(buffer.heads(1)), 2);
    rope.rotate({{buffer.view(0), q.view()}, {buffer.view(1), k.view()}}, positions());
    EXPECT_TRUE(buffer.memory() == before) << packed.name;
    PackedBuffer in_place(packed, DType::kFloat32);
    rope.rotate({in_place.view(0), in_place.view(1)}, positions());
    const PlacedTensor k_again(Layout::kContiguous, DType::kFloat32, sizes(buffer.heads(1)), 3);
    rope.unrotate(in_place.view(1), k_again.view(), positions());
    rope.rotate(buffer.view(1), buffer.view(2), positions());  // over v
    const PlacedTensor over_v(Layout::kContiguous, DType::kFloat32, sizes(buffer.heads(1)), 4);
    rope.unrotate(buffer.view(2), over_v.view(), positions());
    EXPECT_EQ(over_v.bits(), k_again.bits()) << packed.name;
  }
}

// ---- Rejected calls ----------------------------------------------------------------------------

class OperandsReject : public testing::Test {
 protected:
  static constexpr std::int64_t kHeads = 2;

  void TearDown() override { EXPECT_EQ(memory_, std::vector<float>(kSize, 0.5f)); }

  /// [batch, tokens, heads, 40] from element `first`.
  TensorView at(std::int64_t first, std::int64_t tokens = kTokens, std::int64_t batch = kBatch,
                std::int64_t heads = kHeads) {
    return TensorView::contiguous(memory_.data() + first, DType::kFloat32,
                                  {batch, tokens, heads, kHeadDim});
  }
  static constexpr std::int64_t kCount = kBatch * kTokens * kHeads * kHeadDim;

  static void rejects(std::span<const Operand> list, const std::string& rule) {
    for (const Call& call : calls()) {
      expect_rejected([&] { call.run(make_rope(), list); }, call.name, rule);
    }
  }
  static void rejects(std::initializer_list<Operand> list, const std::string& rule) {
    rejects(std::span<const Operand>(list.begin(), list.size()), rule);
  }

 private:
  static constexpr std::size_t kSize = 8 * kCount;
  std::vector<float> memory_ = std::vector<float>(kSize, 0.5f);
};

TEST_F(OperandsReject, OverlappingOutputs) {
  constexpr const char* kRule = "share";
  rejects({at(0), at(0)}, kRule);
  rejects({at(0), at(kCount - 1)}, kRule);
  rejects({at(0), at(kCount), at(kCount / 2)}, kRule);
  rejects({{at(0), at(kCount)}, {at(2 * kCount), at(kCount)}}, kRule);
  // One in place, one written into it.
  rejects({at(0), {at(kCount), at(0)}}, kRule);
  // Views that share a head: q has all heads, k the last.
  TensorView last = at(0);
  last.shape[2] = 1;
  last.data = static_cast<float*>(last.data) + kHeadDim;
  rejects({at(0), last}, kRule);
}

TEST_F(OperandsReject, OutputOverlappingAnotherInput) {
  constexpr const char* kRule = "share";
  rejects({{at(0), at(kCount)}, {at(kCount), at(2 * kCount)}}, kRule);
  rejects({{at(kCount), at(2 * kCount)}, {at(0), at(kCount)}}, kRule);
  // A swap.
  rejects({{at(0), at(kCount)}, {at(kCount), at(0)}}, kRule);
  // Half of it.
  rejects({{at(0), at(kCount)}, {at(3 * kCount / 2), at(3 * kCount)}}, kRule);
}

using OperandsAccept = OperandsReject;

// Inputs may overlap; only outputs must not.
TEST_F(OperandsAccept, OverlappingInputs) {
  std::vector<float> out(2 * kCount);
  const auto to = [&out](std::int64_t first) {
    return TensorView::contiguous(out.data() + first, DType::kFloat32,
                                  {kBatch, kTokens, kHeads, kHeadDim});
  };
  make_rope().rotate({{at(0), to(0)}, {at(0), to(kCount)}}, positions());
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + kCount),
            std::vector<float>(out.begin() + kCount, out.end()));
}

TEST_F(OperandsReject, DifferentBatchOrTokens) {
  rejects({at(0), at(kCount, kTokens - 1)}, "tokens");
  rejects({at(0), at(kCount, kTokens, 1)}, "batch");
  rejects({at(0), at(kCount, 0)}, "tokens");
}

// An invalid later tensor is found before the first is written.
TEST_F(OperandsReject, InvalidLaterTensor) {
  TensorView wrong = at(kCount);
  wrong.shape[3] = kHeadDim - 1;
  rejects({at(0), wrong}, "the last size must be head_dim 40");
  wrong = at(kCount);
  wrong.dtype = DType::kInt32;
  rejects({at(0), at(2 * kCount), wrong}, "floating-point");
  wrong = at(kCount);
  wrong.strides[1] = 0;
  rejects({at(0), wrong}, "must not share memory");
  rejects({at(0), {at(kCount), at(2 * kCount, kTokens, kBatch, 1)}}, "shape");
}

TEST_F(OperandsReject, TooManyTensors) {
  std::vector<Operand> list;
  for (std::int64_t i = 0; i <= kMaxOperands; ++i) list.emplace_back(at(i * kHeadDim, 1, 1, 1));
  rejects(list, "at most 16");
}

}  // namespace
}  // namespace rotary::operands_test
