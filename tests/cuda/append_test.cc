// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::append on the GPU: the cases of the CPU's test, bit for bit; slots are distinct, since of
// several tokens with one slot any is stored. And what only device memory has: slots outside of the
// cache, graphs.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cuda/device_memory.h"
#ifdef ROTARY_EMULATES_CUDA
#include "cuda/emulated/launches.h"
#endif
#include "rope/append_fixture.h"
#include "rotary/kv_cache.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr DType kQuantized[] = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8};
constexpr CacheLayout kLayouts[] = {CacheLayout::kTokenMajor, CacheLayout::kHeadMajor,
                                    CacheLayout::kInterleaved};
constexpr QueryKind kQueries[] = {QueryKind::kNone, QueryKind::kInPlace, QueryKind::kApart};
constexpr SlotKind kSlots[] = {SlotKind::kInt32, SlotKind::kInt64, SlotKind::kPaged,
                               SlotKind::kShort};
constexpr ScaleKind kScales[] = {ScaleKind::kNone, ScaleKind::kTensor, ScaleKind::kHead,
                                 ScaleKind::kComputed, ScaleKind::kGroups};

/// The memory of a fixture on the device, and views of it.
class DeviceRegions {
 public:
  explicit DeviceRegions(std::vector<std::span<std::byte>> host) : host_(std::move(host)) {
    for (const auto& region : host_) {
      memory_.push_back(std::make_unique<DeviceMemory>(region.data(), region.size()));
    }
  }

  template <typename View>
  View moved(View view) const {
    if (view.data == nullptr) return view;
    const auto* const at = static_cast<const std::byte*>(view.data);
    for (std::size_t i = 0; i < host_.size(); ++i) {
      if (at < host_[i].data() || at >= host_[i].data() + host_[i].size()) continue;
      view.data = memory_[i]->data(static_cast<std::size_t>(at - host_[i].data()));
      view.device = kGpu;
      return view;
    }
    ADD_FAILURE() << "a view outside of the memory";
    return view;
  }
  StoredTensor moved(StoredTensor x) const {
    x.data = moved(x.data);
    x.scale = moved(x.scale);
    x.computed_scales = moved(x.computed_scales);
    return x;
  }
  KvAppend moved(KvAppend a) const {
    if (a.q) a.q = Operand(moved(a.q->in), moved(a.q->out));
    a.k = moved(a.k);
    a.v = moved(a.v);
    a.keys = moved(a.keys);
    a.values = moved(a.values);
    a.q_weight = moved(a.q_weight);
    a.k_weight = moved(a.k_weight);
    a.q_bias = moved(a.q_bias);
    a.k_bias = moved(a.k_bias);
    const ConstTensorView indices = moved(a.slots.indices());
    a.slots = a.slots.block_table().rank == 0
                  ? Slots::flat(indices)
                  : Slots::paged(moved(a.slots.block_table()), indices, moved(a.slots.sequences()));
    return a;
  }
  Positions moved(const Positions& positions) const {
    return positions.kind() == Positions::Kind::kIds ? Positions::ids(moved(positions.view()))
                                                     : positions;
  }
  void download() const {
    for (std::size_t i = 0; i < host_.size(); ++i) {
      memory_[i]->download(host_[i].data(), host_[i].size());
    }
  }

 private:
  std::vector<std::span<std::byte>> host_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

/// Runs a case and compares it with the CPU. Emulated, also that each of its launches was of
/// `kernel`.
void expect_chain_by(const std::string& kernel, const AppendCase& c) {
  AppendFixture fixture(c);
  const DeviceRegions device(fixture.regions());
#ifdef ROTARY_EMULATES_CUDA
  emulated::take_launches();
#endif
  fixture.rope().append(device.moved(fixture.arguments()), device.moved(fixture.positions()));
  device.download();
  EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << kernel << " " << to_string(c);
  EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << kernel << " " << to_string(c);
  EXPECT_EQ(fixture.computed(), fixture.expected_computed()) << kernel << " " << to_string(c);
#ifdef ROTARY_EMULATES_CUDA
  const std::vector<std::string> launches = emulated::take_launches();
  EXPECT_FALSE(launches.empty());
  for (const std::string& name : launches) {
    EXPECT_NE(name.find(kernel), std::string::npos) << kernel << " " << name << " " << to_string(c);
  }
#endif
}

void expect_chain(AppendCase c) {
  c.distinct_slots = true;
  for (const HeadShape& shape : {HeadShape{}, kAlignedHead}) {
    c.shape = shape;
    AppendFixture fixture(c);
    const DeviceRegions device(fixture.regions());
    fixture.rope().append(device.moved(fixture.arguments()), fixture.positions());
    device.download();
    EXPECT_TRUE(fixture.result_q() == fixture.expected_q()) << to_string(c);
    EXPECT_TRUE(fixture.pool() == fixture.expected_pool()) << to_string(c);
    EXPECT_EQ(fixture.computed(), fixture.expected_computed()) << to_string(c);
  }
}

TEST(CudaAppend, CopiesEveryTypeLayoutAndSlot) {
  for (const DType type : kTypes) {
    for (const CacheLayout layout : kLayouts) {
      for (const QueryKind query : kQueries) {
        for (const SlotKind slots : kSlots) {
          for (const std::int64_t batch : {1, 2}) {
            expect_chain({.type = type,
                          .layout = layout,
                          .query = query,
                          .slots = slots,
                          .batch = batch,
                          .pairing = batch == 1 ? Pairing::kHalf : Pairing::kInterleaved});
          }
        }
      }
    }
  }
}

TEST(CudaAppend, DecodesManySequences) {
  for (const SlotKind slots : {SlotKind::kInt32, SlotKind::kInt64, SlotKind::kPaged}) {
    for (const DType type : kTypes) {
      expect_chain({.type = type, .slots = slots, .batch = 3, .tokens = 1});
    }
  }
}

TEST(CudaAppend, QuantisesByEveryScale) {
  for (const DType type : kTypes) {
    for (const DType stored : kQuantized) {
      for (const ScaleKind scale : kScales) {
        for (const ScaleUse use : {ScaleUse::kDivide, ScaleUse::kMultiply}) {
          for (const CacheLayout layout : kLayouts) {
            expect_chain({.type = type,
                          .quantized = stored,
                          .scale = scale,
                          .use = use,
                          .layout = layout,
                          .query = QueryKind::kApart,
                          .slots = SlotKind::kPaged,
                          .batch = 2});
          }
        }
      }
    }
  }
}

TEST(CudaAppend, NormalisesFirst) {
  for (const DType type : kTypes) {
    for (const NormKind norm : {NormKind::kRms, NormKind::kRmsOnePlus}) {
      for (const QueryKind query : kQueries) {
        for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
          expect_chain({.type = type,
                        .query = query,
                        .norm = {.kind = norm},
                        .batch = 2,
                        .pairing = pairing});
          expect_chain({.type = type,
                        .quantized = DType::kFloat8E4M3,
                        .scale = ScaleKind::kComputed,
                        .query = query,
                        .norm = {.kind = norm},
                        .pairing = pairing});
        }
      }
    }
  }
}

TEST(CudaAppend, AnyCombination) {
  std::mt19937 random(20);
  const auto one_of = [&random](const auto& choices) {
    return choices[random() % std::size(choices)];
  };
  for (unsigned i = 0; i < 300; ++i) {
    AppendCase c{.type = one_of(kTypes),
                 .layout = one_of(kLayouts),
                 .query = one_of(kQueries),
                 .slots = one_of(kSlots),
                 .batch = static_cast<std::int64_t>(1 + random() % 3),
                 .tokens = static_cast<std::int64_t>(2 + random() % 40),
                 .pairing = random() % 2 == 0 ? Pairing::kHalf : Pairing::kInterleaved,
                 .seed = i};
    if (random() % 3 != 0) {
      c.quantized = one_of(kQuantized);
      c.scale = one_of(kScales);
      c.use = random() % 2 == 0 ? ScaleUse::kDivide : ScaleUse::kMultiply;
    }
    expect_chain(c);
  }
}

// The fastest kernels, fused_block for few tokens and fused_vectorized, take whole heads and norms
// in the order of a warp. Both are given what they take, and what only one or none of them does.

/// On a GPU the reciprocal root is the device's, and rounds otherwise than the CPU's now and then.
#ifdef ROTARY_EMULATES_CUDA
constexpr NormKind kWarpNorms[] = {NormKind::kNone, NormKind::kRms, NormKind::kRmsOnePlus};
#else
constexpr NormKind kWarpNorms[] = {NormKind::kNone};
#endif

AppendCase whole_heads(DType type, const HeadShape& shape) {
  return {.type = type,
          .query = QueryKind::kApart,
          .norm = {.kind = NormKind::kNone, .sum_lanes = 32},
          .weight_type = type,
          .shape = shape,
          .query_heads = 9,
          .heads = 3,
          .tokens = 23,
          .blocks = 9,
          .block_size = 3,
          .seed = 2,
          .distinct_slots = true};
}

TEST(CudaAppend, WholeHeadsInDecodingSteps) {
  for (const DType type : kTypes) {
    for (const HeadShape& shape : {kWholeHead64, kWholeHead128}) {
      for (const NormKind norm : kWarpNorms) {
        for (const NormRounding rounding : {NormRounding::kTensor, NormRounding::kFloat32}) {
          for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
            AppendCase c = whole_heads(type, shape);
            c.norm.kind = norm;
            c.norm.rounding = rounding;
            c.pairing = pairing;
            c.slots = SlotKind::kPaged;
            expect_chain_by("fused_block", c);
            c.seed = 3;  // queries have a norm without a weight
            c.batch = 2;
            c.blocks = 4;
            c.block_size = 16;
            expect_chain_by("fused_block", c);
            c.slots = SlotKind::kSequences;
            c.blocks = 15;
            c.axes = 1;
            c.inputs = InputLayout::kGaps;
            c.query = QueryKind::kInPlace;
            c.layout = CacheLayout::kInterleaved;
            expect_chain_by("fused_block", c);
          }
        }
      }
    }
  }
}

TEST(CudaAppend, WholeHeadsQuantised) {
  for (const DType type : kTypes) {
    for (const DType stored : kQuantized) {
      for (const ScaleKind scale : {ScaleKind::kNone, ScaleKind::kTensor, ScaleKind::kHead}) {
        for (const ScaleUse use : {ScaleUse::kDivide, ScaleUse::kMultiply}) {
          for (const NormKind norm : kWarpNorms) {
            AppendCase c = whole_heads(type, kWholeHead128);
            c.quantized = stored;
            c.scale = scale;
            c.use = use;
            c.norm.kind = norm;
            expect_chain_by("fused_block", c);
            c.quantized_values = stored == DType::kInt8 ? DType::kFloat8E4M3 : DType::kInt8;
            c.layout = CacheLayout::kHeadMajor;
            c.block_size = 16;
            expect_chain_by("fused_block", c);
            if (norm == NormKind::kNone || type == DType::kFloat32) continue;
            c.weight_type = DType::kFloat32;
            expect_chain_by("fused_vectorized", c);
          }
        }
      }
    }
  }
}

// So many tokens that a warp takes the heads of q, k and v one after the other: two steps of a
// warp, and all of them.
TEST(CudaAppend, WholeHeadsOfManyTokens) {
  for (const NormKind norm : kWarpNorms) {
    AppendCase c = whole_heads(DType::kBFloat16, kWholeHead64);
    c.query_heads = 2;
    c.heads = 1;
    c.pairing = norm == NormKind::kRms ? Pairing::kInterleaved : Pairing::kHalf;
    c.norm.kind = norm;
    c.tokens = norm == NormKind::kRms ? 10'001 : 15'001;
    c.blocks = 999;
    c.block_size = 16;
    c.slots = SlotKind::kPaged;
    if (norm != NormKind::kRms) c.quantized = DType::kFloat8E4M3;
    expect_chain_by("fused_vectorized", c);
  }
}

TEST(CudaAppend, OtherKernelsForWhatTheFastestDoNotTake) {
  for (const DType type : kTypes) {
    const AppendCase whole = whole_heads(type, kWholeHead128);
    AppendCase c = whole;
    c.norm = {.kind = NormKind::kRms};  // the CPU's order of sums
    expect_chain_by("fused_tokens", c);
    c.norm.kind = NormKind::kLayer;
    expect_chain_by("fused_tokens", c);
    c.norm.order = NormOrder::kAfterRotation;
    expect_chain_by("fused_heads", c);
    c = whole;
    c.quantized = DType::kInt8;
    c.scale = ScaleKind::kComputed;
    expect_chain_by("fused_tokens", c);
    c.scale = ScaleKind::kGroups;
    expect_chain_by("fused_heads", c);
    c = whole;
    c.shape = kAlignedHead;
    expect_chain_by("fused_tokens", c);
    c.shape = {.head_dim = 26, .rotary_offset = 5};
    expect_chain_by("fused_heads", c);
    c = whole;
    c.axes = 3;
    expect_chain_by("fused_block", c);
  }
}

TEST(CudaAppend, SkipsSlotsOutsideOfTheCache) {
  const AppendCase c{.type = DType::kBFloat16, .slots = SlotKind::kInt64, .shape = kAlignedHead};
  AppendFixture fixture(c);
  const std::vector<std::byte> before = fixture.pool();
  const DeviceRegions device(fixture.regions());
  KvAppend a = device.moved(fixture.arguments());
  const std::vector<std::int64_t> outside = {24, 1 << 20, -2, std::int64_t{1} << 60, -1, 25, 99};
  const DeviceList<std::int64_t> slots(outside);
  a.slots = Slots::flat(ConstTensorView::contiguous(slots.data(), DType::kInt64, {7}, kGpu));
  fixture.rope().append(a, fixture.positions());
  device.download();
  EXPECT_TRUE(fixture.pool() == before);
  EXPECT_TRUE(fixture.result_q() == fixture.expected_q());
}

TEST(CudaAppend, StoresWithoutRotation) {
  for (const DType type : kTypes) {
    const AppendCase c{.type = type, .query = QueryKind::kNone, .distinct_slots = true};
    AppendFixture on_host(c);
    AppendFixture on_device(c);
    store_kv(on_host.arguments());
    const DeviceRegions device(on_device.regions());
    store_kv(device.moved(on_device.arguments()));
    device.download();
    EXPECT_TRUE(on_device.pool() == on_host.pool()) << to_string(c);
  }
}

TEST(CudaAppend, RejectsFloat64AndTensorsOfTwoDevices) {
  AppendFixture wide({.type = DType::kFloat64});
  const DeviceRegions device(wide.regions());
  EXPECT_THROW(wide.rope().append(device.moved(wide.arguments()), wide.positions()),
               std::invalid_argument);
  AppendFixture fixture({.type = DType::kBFloat16});
  const DeviceRegions other(fixture.regions());
  KvAppend a = other.moved(fixture.arguments());
  a.slots = fixture.arguments().slots;
  EXPECT_THROW(fixture.rope().append(a, fixture.positions()), std::invalid_argument);
}

}  // namespace
}  // namespace rotary
