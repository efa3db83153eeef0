// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls that rotate do not allocate. The counter below is also that of librotary_c: a program's
// operator new serves the libraries that it loads.

#include <atomic>
#include <cstdlib>
#include <new>

#include "c/c_testing.h"

namespace {

std::atomic<std::int64_t> allocations = 0;

}  // namespace

// Not inlined: GCC would warn of memory from new that goes to free().
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace rotary {
namespace {

TEST(CAllocationTest, RotationsDoNotAllocate) {
  QueryAndKey memory;
  QueryAndKey other(DType::kFloat32, 2);
  const auto in = memory.tensors();
  const auto out = other.tensors();
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  const std::int64_t before_rope = allocations;
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(8, 100.0, &layout, nullptr, &made));
  EXPECT_GT(allocations, before_rope) << "the counter does not see librotary_c";
  const CRope rope(made);

  std::int32_t numbers[] = {5, 4, 3, 2, 1};
  const std::int64_t shape[] = {1, 5};
  const rotary_tensor ids = rotary_tensor_contiguous(numbers, ROTARY_DTYPE_INT32, 2, shape);
  const std::int64_t rows[] = {7, 8};
  const std::int64_t boundaries[] = {0, 2, 5};
  std::vector<std::int32_t> few{7, 8};
  std::vector<std::int32_t> ends{0, 2, 5};
  const rotary_tensor row_view = c_row(few);
  const rotary_tensor boundary_view = c_row(ends);
  const rotary_positions kinds[] = {rotary_positions_range(3),
                                    rotary_positions_range_rows(rows, 2),
                                    rotary_positions_at(9),
                                    rotary_positions_ids(&ids),
                                    rotary_positions_packed(boundaries, 2, rows),
                                    rotary_positions_at_view(&row_view),
                                    rotary_positions_packed_view(&boundary_view, &row_view)};
  for (const rotary_positions& positions : kinds) {
    SCOPED_TRACE(positions.kind);
    const std::int64_t before = allocations;
    rotary_status worst = ROTARY_OK;
    for (const auto operation :
         {rotary_rope_rotate, rotary_rope_unrotate, rotary_rope_adjoint, rotary_rope_shift}) {
      worst |= operation(rope.get(), in.data(), nullptr, 2, &positions);
      worst |= operation(rope.get(), in.data(), out.data(), 2, &positions);
    }
    const std::int64_t after = allocations;
    ROTARY_EXPECT_OK(worst);
    EXPECT_EQ(after, before);
  }
}

}  // namespace
}  // namespace rotary
