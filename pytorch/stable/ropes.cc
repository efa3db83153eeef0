// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/stable/ropes.h"

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "pytorch/shared/call_positions.h"
#include "pytorch/stable/tensor.h"

namespace rotary::torch::stable {
namespace {

using Task = std::function<void(int)>;

Threads torch_threads(int count) {
  return {.count = count, .run = [](int tasks, const Task& task) {
            const auto run = [](std::int64_t begin, std::int64_t end, void* context) {
              const auto& each = *static_cast<const Task*>(context);
              for (std::int64_t i = begin; i < end; ++i) each(static_cast<int>(i));
            };
            check(torch_parallel_for(0, tasks, 1, run, const_cast<Task*>(&task)), "parallel_for");
          }};
}

}  // namespace

StableRopes::StableRopes(std::string_view text, int threads)
    : RopeSet(text, torch_threads(threads)) {}

int num_threads() {
  std::uint32_t threads = 1;
  check(torch_get_num_threads(&threads), "get_num_threads");
  return static_cast<int>(threads);
}

std::shared_ptr<const StableRopes> find_ropes(std::string_view text) {
  return RopeCache<StableRopes>::find(text, num_threads());
}

TableWidth width_of(const RopeSet& ropes, const ConstTensorView& cos) {
  const std::int64_t pairs = ropes.frequencies().pairs;
  const std::int64_t columns =
      cos.rank == 0 ? 0 : cos.shape[static_cast<std::size_t>(cos.rank - 1)];
  if (columns != pairs && columns != 2 * pairs) {
    throw std::invalid_argument("[rotate_table] cos and sin must have " + std::to_string(pairs) +
                                " or " + std::to_string(2 * pairs) + " columns, got " +
                                std::to_string(columns));
  }
  return columns == pairs ? TableWidth::kPairs : TableWidth::kTwicePairs;
}

void apply_cached_table(RotationOp op, const RopeSet& ropes, const CosSinTable& table,
                        const std::optional<ConstTensorView>& positions,
                        std::span<const Operand> operands, const Stream& stream) {
  const char* const name = op == RotationOp::kRotate ? "rotate_table_" : "adjoint_table_";
  const ConstTensorView& cos = table.cos;
  const std::int64_t pairs = ropes.frequencies().pairs;
  if (cos.rank < 1 || cos.shape[static_cast<std::size_t>(cos.rank - 1)] != pairs) {
    throw std::invalid_argument('[' + std::string(name) +
                                "] cos and sin must have a column for each of " +
                                std::to_string(pairs) + " pairs");
  }
  const TableRope rope(table, ropes.layout(), TableWidth::kPairs, ropes.rope().options().threads);
  if (!positions) {
    return op == RotationOp::kRotate ? rope.rotate(operands, stream)
                                     : rope.adjoint(operands, stream);
  }
  const Positions rows = make_positions(name, ropes, {.positions = positions}, operands[0].in,
                                        PositionKind::kAbsolute);
  return op == RotationOp::kRotate ? rope.rotate(operands, rows, stream)
                                   : rope.adjoint(operands, rows, stream);
}

}  // namespace rotary::torch::stable
