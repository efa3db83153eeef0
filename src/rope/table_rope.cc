// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <string_view>
#include <utility>

#include "rope/dispatch.h"
#include "rope/memory.h"
#include "rope/table_call.h"
#include "rope/validate.h"
#include "rope/write_order.h"
#include "rotary/table.h"
#include "support/message.h"

namespace rotary {
namespace {

/// [rows, width] as [1, rows, width].
ConstTensorView with_batch(const ConstTensorView& view, std::string_view name) {
  if (view.rank != 2 && view.rank != 3) {
    internal::reject("[TableRope] ", name,
                     " must be [rows, width] or [batch, rows, width], got rank ", view.rank);
  }
  internal::check_memory("TableRope", view);
  ConstTensorView rows = view;
  rows.shape[3] = 0;
  rows.strides[3] = 0;
  if (view.rank == 3) return rows;
  rows.rank = 3;
  rows.shape = {1, view.shape[0], view.shape[1], 0};
  rows.strides = {0, view.strides[0], view.strides[1], 0};
  return rows;
}

/// Throws unless every position is a row of the table. Positions in device memory are not checked.
void check_rows(std::string_view function, const Positions& positions, std::int64_t batch,
                std::int64_t tokens, std::int64_t rows) {
  if (positions.real_valued()) {
    internal::reject("[", function, "] positions must be whole numbers: rows of the table");
  }
  const bool on_host = positions.view().device.type == DeviceType::kCpu &&
                       positions.first().device.type == DeviceType::kCpu &&
                       positions.boundaries().device.type == DeviceType::kCpu;
  if (!on_host) return;
  internal::PositionReader reader(positions);
  const std::int64_t batches = positions.batch() < 0 ? 1 : batch;
  // For a range it is enough to check both ends.
  const bool range = positions.kind() == Positions::Kind::kRange;
  const std::int64_t step = range && tokens > 1 ? tokens - 1 : 1;
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t t = 0; t < tokens; t += step) {
      const std::int64_t row = reader.at(0, b, t).integer;
      if (row < 0 || row >= rows) {
        internal::reject("[", function, "] positions must be rows of the table, 0 to ", rows - 1,
                         ", got ", row, " at token ", t);
      }
    }
  }
}

}  // namespace

namespace internal {

void TableCall::check(std::string_view function, std::span<const Operand> operands,
                      const Positions& positions, bool row_per_token) const {
  const ConstTensorView& first = operands.front().in;
  check_positions(function, positions, operands, 1);
  const auto [batch, tokens, heads, head_dim] = first.shape;
  const ConstTensorView& rows = table.cos;
  if (rows.device != first.device) {
    reject("[", function, "] tables and tensors must be on the same device");
  }
  if (rows.shape[0] != 1 && rows.shape[0] != batch) {
    reject("[", function, "] the table must have 1 or ", batch, " batch rows, got ", rows.shape[0]);
  }
  if (row_per_token && rows.shape[1] != tokens) {
    reject("[", function, "] the table must have a row for each of ", tokens, " tokens, got ",
           rows.shape[1], "; give positions if rows are positions");
  }
  if (!row_per_token) check_rows(function, positions, batch, tokens, rows.shape[1]);
  for (const Operand& x : operands) {
    if (may_overlap(x.out, table.cos) || may_overlap(x.out, table.sin)) {
      reject("[", function, "] tensors that are written must not share memory with the table");
    }
  }
}

RotateParams TableCall::params(std::span<const Operand> operands, const Positions& positions,
                               Direction direction) const {
  const bool forward = direction == Direction::kForward;
  return {.source = {.table = &table, .width = width},
          .direction = direction,
          .read = forward ? *layout.pairing : *layout.output_pairing,
          .write = forward ? *layout.output_pairing : *layout.pairing,
          .pairs = pairs,
          .rotary_offset = layout.rotary_offset,
          .operands = operands,
          .positions = positions,
          .order = order};
}

}  // namespace internal

namespace {

struct Call {
  internal::TableCall by;
  const Threads& threads;

  void run(std::string_view function, const Operands& tensors, const Positions& positions,
           bool row_per_token, internal::Direction direction, const Stream& stream) const {
    internal::OperandList checked;
    const std::span<const Operand> operands =
        internal::check_operands(function, tensors, by.layout.head_dim, checked);
    if (operands.empty()) return;
    by.check(function, operands, positions, row_per_token);
    if (internal::is_empty(operands)) return;
    internal::rotate(function, by.params(operands, positions, direction), threads, stream);
  }
};

}  // namespace

TableRope::TableRope(const CosSinTable& table, const HeadLayout& layout, TableWidth width,
                     Threads threads)
    : table_{with_batch(table.cos, "cos"), with_batch(table.sin, "sin")},
      layout_(layout),
      width_(width),
      threads_(std::move(threads)),
      order_(internal::resolve_write_order("TableRope", {})) {
  const ConstTensorView& cos = table_.cos;
  const ConstTensorView& sin = table_.sin;
  if (cos.shape != sin.shape || cos.dtype != sin.dtype || cos.device != sin.device) {
    internal::reject("[TableRope] cos and sin must have the same shape, type and device");
  }
  if (!is_floating_point(cos.dtype) || is_float8(cos.dtype)) {
    internal::reject("[TableRope] tables must be of a floating-point type of 16 bits or more, got ",
                     name_of(cos.dtype));
  }
  const std::int64_t columns = cos.shape[2];
  if (width == TableWidth::kTwicePairs && columns % 2 != 0) {
    internal::reject("[TableRope] a table of twice the pairs must have an even width, got ",
                     columns);
  }
  pairs_ = width == TableWidth::kPairs ? columns : columns / 2;
  internal::check_head("TableRope", layout_, pairs_);
  internal::check_threads("TableRope", threads_);
  if (!layout_.output_pairing) layout_.output_pairing = layout_.pairing;
}

void TableRope::rotate(const Operands& tensors, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "rotate", tensors, Positions::range(), true, internal::Direction::kForward, stream);
}
void TableRope::rotate(const Operands& tensors, const Positions& positions, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "rotate", tensors, positions, false, internal::Direction::kForward, stream);
}
void TableRope::unrotate(const Operands& tensors, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "unrotate", tensors, Positions::range(), true, internal::Direction::kInverse, stream);
}
void TableRope::unrotate(const Operands& tensors, const Positions& positions, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "unrotate", tensors, positions, false, internal::Direction::kInverse, stream);
}
void TableRope::adjoint(const Operands& tensors, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "adjoint", tensors, Positions::range(), true, internal::Direction::kAdjoint, stream);
}
void TableRope::adjoint(const Operands& tensors, const Positions& positions, Stream stream) const {
  Call{{table_, layout_, width_, pairs_, order_}, threads_}.run(
      "adjoint", tensors, positions, false, internal::Direction::kAdjoint, stream);
}

}  // namespace rotary
