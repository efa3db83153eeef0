// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The C API on the GPU: same results as the C++ API, queued on the rope's stream.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "c/c_testing.h"
#include "cuda/device_memory.h"
#include "cuda/every_call.h"

namespace rotary {
namespace {

rotary_head_layout c_layout(const HeadLayout& layout) {
  return rotary_head_layout_init(layout.head_dim, static_cast<int>(*layout.pairing) + 1);
}

/// The fixture's rope on a stream.
CRope c_rope(const Rope& rope, const DeviceStream& stream) {
  const Frequencies& f = rope.frequencies();
  rotary_frequencies frequencies = rotary_frequencies_init(f.values.data(), f.pairs, f.axes);
  const rotary_head_layout layout = c_layout(rope.layout());
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&frequencies, &layout, nullptr, &made));
  const CRope on_default(made);
  ROTARY_EXPECT_OK(rotary_rope_with_stream(made, stream.get(), 0, &made));
  return CRope(made);
}

rotary_tensor c_list(const DeviceList<std::int64_t>& list) {
  const auto size = static_cast<std::int64_t>(list.span().size());
  return c_tensor(TensorView::contiguous(list.data(), DType::kInt64, {size}, kGpu));
}

struct CApiCase {
  std::string name;
  std::function<rotary_status(const CallFixture&, const rotary_rope*)> c;
  std::function<void(const CallFixture&)> cpp;
};

rotary_status rotate_out_of_place(const CallFixture& d, const rotary_rope* rope) {
  const std::array in = {c_tensor(d.view(0)), c_tensor(d.view(1))};
  std::array out = {c_tensor(d.view(4)), c_tensor(d.view(3))};
  out[0].out_scale = d.scale.data();
  const rotary_tensor ids = c_tensor(TensorView::contiguous(
      d.ids.data(), DType::kInt64, {1, CallFixture::kBatch, CallFixture::kTokens}, kGpu));
  const rotary_positions at = rotary_positions_ids(&ids);
  return rotary_rope_rotate(rope, in.data(), out.data(), 2, &at);
}

rotary_status gradient(const CallFixture& d, const rotary_rope* rope) {
  const rotary_tensor in = c_tensor(d.view(0));
  const rotary_tensor grad = c_tensor(d.view(2));
  const ParameterGradients wanted = d.gradients();
  const rotary_tensor positions = c_tensor(wanted.positions);
  rotary_gradients gradients = rotary_gradients_init();
  gradients.frequencies = wanted.frequencies.data();
  gradients.num_frequencies = CallFixture::kPairs;
  gradients.positions = &positions;
  gradients.scale = wanted.scale;
  gradients.workspace = wanted.workspace.data();
  EXPECT_EQ(rotary_rope_gradient_workspace(rope, CallFixture::kBatch, CallFixture::kTokens,
                                           &gradients.workspace_size),
            ROTARY_OK);
  EXPECT_EQ(gradients.workspace_size, wanted.workspace.size());
  const rotary_tensor first = c_list(d.first);
  const rotary_positions at = rotary_positions_range_view(&first);
  return rotary_rope_gradient(rope, &in, &grad, &grad, 1, &at, &gradients);
}

std::vector<CApiCase> c_api_cases() {
  return {
      {"rotate, one of them to 8 bits", rotate_out_of_place,
       [](const CallFixture& d) {
         d.rope.rotate({{d.view(0), d.view(4), d.scale.data()}, {d.view(1), d.view(3)}},
                       d.at_ids());
       }},
      {"shift in place",
       [](const CallFixture& d, const rotary_rope* rope) {
         const rotary_tensor k = c_tensor(d.view(1));
         const rotary_tensor first = c_list(d.first);
         const rotary_positions by = rotary_positions_at_view(&first);
         return rotary_rope_shift(rope, &k, nullptr, 1, &by);
       },
       [](const CallFixture& d) { d.rope.shift(d.view(1), Positions::at(d.list(d.first, 3))); }},
      {"unrotate packed",
       [](const CallFixture& d, const rotary_rope* rope) {
         const rotary_tensor q = c_tensor(d.view(0));
         const rotary_tensor boundaries = c_list(d.boundaries);
         const rotary_tensor first = c_list(d.first);
         const rotary_positions at = rotary_positions_packed_view(&boundaries, &first);
         return rotary_rope_unrotate(rope, &q, nullptr, 1, &at);
       },
       [](const CallFixture& d) {
         d.rope.unrotate(d.view(0), Positions::packed(d.list(d.boundaries, 4), d.list(d.first, 3)));
       }},
      {"cos and sin",
       [](const CallFixture& d, const rotary_rope* rope) {
         const rotary_tensor cos = c_tensor(d.rows(5));
         const rotary_tensor sin = c_tensor(d.rows(6));
         const rotary_positions at = rotary_positions_range(131069);
         return rotary_rope_cos_sin(rope, &cos, &sin, &at);
       },
       [](const CallFixture& d) {
         d.rope.cos_sin(d.rows(5), d.rows(6), Positions::range(131069));
       }},
      {"gradient", gradient, [](const CallFixture& d) {
         d.rope.gradient({{d.view(0), d.view(2), d.view(2)}}, Positions::range(d.list(d.first, 3)),
                         d.gradients());
       }}};
}

TEST(CudaC, MatchesCpp) {
  EXPECT_EQ(rotary_has_cuda(), 1);
  EXPECT_GE(rotary_cuda_device_count(), 1);
  const DeviceStream stream;
  for (const CApiCase& test_case : c_api_cases()) {
    const CallFixture fixture;
    const CRope rope = c_rope(fixture.rope, stream);
    check_cuda(cudaDeviceSynchronize());
    ROTARY_EXPECT_OK(test_case.c(fixture, rope.get())) << test_case.name;
    stream.wait();
    const auto got = fixture.memory();
    fixture.reset();
    EXPECT_FALSE(got == fixture.memory()) << test_case.name;
    test_case.cpp(fixture);
    EXPECT_TRUE(got == fixture.memory()) << test_case.name;
  }
}

TEST(CudaC, Table) {
  const DeviceStream stream;
  const CallFixture fixture;
  const rotary_tensor cos = c_tensor(fixture.rows(5));
  const rotary_tensor sin = c_tensor(fixture.rows(6));
  const rotary_head_layout layout = c_layout(fixture.rope.layout());
  rotary_table* made = nullptr;
  ROTARY_EXPECT_OK(rotary_table_create(&cos, &sin, ROTARY_TABLE_PAIRS, &layout, nullptr, &made));
  const CTable on_default(made);
  ROTARY_EXPECT_OK(rotary_table_with_stream(made, stream.get(), 1, &made));
  const CTable table(made);
  check_cuda(cudaDeviceSynchronize());
  const rotary_tensor q = c_tensor(fixture.view(0));
  ROTARY_EXPECT_OK(rotary_table_rotate(table.get(), &q, nullptr, 1, nullptr));
  stream.wait();
  const auto got = fixture.memory();
  fixture.reset();
  TableRope({fixture.rows(5), fixture.rows(6)}, fixture.rope.layout(), TableWidth::kPairs)
      .rotate(fixture.view(0));
  EXPECT_TRUE(got == fixture.memory());
}

// A stream whose capture has failed accepts no kernels.
TEST(CudaC, ReportsDeviceErrors) {
  const DeviceStream stream;
  const CallFixture fixture;
  const CRope rope = c_rope(fixture.rope, stream);
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  EXPECT_NE(cudaStreamSynchronize(stream.get()), cudaSuccess);
  expect_failed(rotate_out_of_place(fixture, rope.get()), ROTARY_CUDA_ERROR, "[rotate] ");
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGetLastError();
}

}  // namespace
}  // namespace rotary
