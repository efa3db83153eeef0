// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The big table of rope/experiment.h on the GPU: every case that the CPU engine is tested on,
// against the reference and against the bits of the CPU.

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "cuda/device_memory.h"
#include "rope/experiment.h"

namespace rotary {
namespace {

/// Tensors and positions in device memory, and back.
void on_gpu(Experiment& e) {
  const DeviceTensor out(e.out());
  std::optional<DeviceTensor> in;
  if (e.in() != nullptr) in.emplace(*e.in());
  e.apply(in ? &in->view() : nullptr, out.view(), DevicePositions(e.positions()));
  e.out().restore(out.downloaded());
  if (in) e.in()->restore(in->downloaded());
}

/// Counts the cases and says so in the end: scripts/gpu.sh reads it.
class CudaRotate : public testing::TestWithParam<TableParam> {
 protected:
  static void TearDownTestSuite() { std::printf("big table: %d cases\n", cases_); }
  static inline int cases_ = 0;
};

TEST_P(CudaRotate, HasTheBitsOfTheCpu) {
  const auto [dtype, layout] = GetParam();
  CaseTable(dtype, layout).for_each_group([](CaseTable::Group& group) {
    for (const auto& experiment : group) {
      ASSERT_TRUE(experiment->run(on_cpu));
      ASSERT_TRUE(experiment->run(on_gpu, Match::kBitsUnlessGrowing));
      ++cases_;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, CudaRotate, all_tables(), name_of_table);

}  // namespace
}  // namespace rotary
