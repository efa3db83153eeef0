// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The table-driven test of rope/experiment.h on the GPU: every case of the CPU engine, against the
// reference and bit for bit against the CPU.

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "cuda/device_memory.h"
#include "rope/experiment.h"

namespace rotary {
namespace {

/// Runs the experiment on device memory and copies the results back.
void on_gpu(Experiment& e) {
  const DeviceTensor out(e.out());
  std::optional<DeviceTensor> in;
  if (e.in() != nullptr) in.emplace(*e.in());
  e.apply(in ? &in->view() : nullptr, out.view(), DevicePositions(e.positions()));
  e.out().restore(out.downloaded());
  if (in) e.in()->restore(in->downloaded());
}

/// Counts the cases and prints the number, which scripts/gpu.sh reads.
class CudaRotate : public testing::TestWithParam<TableParam> {
 protected:
  static void TearDownTestSuite() { std::printf("big table: %d cases\n", cases_); }
  static inline int cases_ = 0;
};

TEST_P(CudaRotate, MatchesCpuBits) {
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
