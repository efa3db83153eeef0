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
#include <vector>

#include "cuda/device_memory.h"
#include "rope/append_case.h"
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
    const ConstTensorView indices = moved(a.slots.indices());
    a.slots = a.slots.block_table().rank == 0
                  ? Slots::flat(indices)
                  : Slots::paged(moved(a.slots.block_table()), indices, moved(a.slots.sequences()));
    return a;
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

void expect_chain(AppendCase c) {
  c.distinct_slots = true;
  for (const bool aligned : {false, true}) {
    c.aligned = aligned;
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
          expect_chain(
              {.type = type, .query = query, .norm = norm, .batch = 2, .pairing = pairing});
          expect_chain({.type = type,
                        .quantized = DType::kFloat8E4M3,
                        .scale = ScaleKind::kComputed,
                        .query = query,
                        .norm = norm,
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

TEST(CudaAppend, SkipsSlotsOutsideOfTheCache) {
  const AppendCase c{.type = DType::kBFloat16, .slots = SlotKind::kInt64, .aligned = true};
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
