// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/table.h"

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/rotary_c.h"

namespace {

using rotary::Operands;
using rotary::Positions;
using rotary::Stream;
using rotary::TableRope;
using rotary::TableWidth;
using rotary::c_api::Call;
using rotary::c_api::guard;
using rotary::c_api::guard_new;
using rotary::c_api::OperandList;
using rotary::c_api::to_stream;
using rotary::c_api::to_threads;

static_assert(static_cast<int>(TableWidth::kPairs) + 1 == ROTARY_TABLE_PAIRS);
static_assert(static_cast<int>(TableWidth::kTwicePairs) + 1 == ROTARY_TABLE_TWICE_PAIRS);

using ByToken = void (TableRope::*)(const Operands&, Stream) const;
using ByPosition = void (TableRope::*)(const Operands&, const Positions&, Stream) const;

rotary_status apply(const char* function, ByToken by_token, ByPosition by_position,
                    const rotary_table* table, const rotary_tensor* in, const rotary_tensor* out,
                    std::int64_t count, const rotary_positions* positions) {
  return guard(function, [&](const Call& call) {
    const auto& [rope, stream] = call.need(table, "table");
    const OperandList operands(call, in, out, count);
    if (positions == nullptr) {
      (rope.*by_token)(operands.list(), stream);
    } else {
      (rope.*by_position)(operands.list(), to_positions(call, positions, "positions"), stream);
    }
  });
}

}  // namespace

rotary_status rotary_table_create(const rotary_tensor* cosines, const rotary_tensor* sines,
                                  rotary_table_width width, const rotary_head_layout* layout,
                                  const rotary_threads* threads, rotary_table** table) {
  return guard_new(__func__, table, "table", [&](const Call& call) {
    const rotary::CosSinTable values{.cos = to_tensor(call, cosines, "cosines"),
                                     .sin = to_tensor(call, sines, "sines")};
    const auto columns = static_cast<TableWidth>(
        call.choose(width, ROTARY_TABLE_PAIRS, ROTARY_TABLE_TWICE_PAIRS, "width") - 1);
    return new rotary_table{TableRope(values, to_layout(call, layout), columns,
                                      to_threads(read_threads(call, threads)))};
  });
}

rotary_status rotary_table_with_stream(const rotary_table* table, void* stream, int32_t overlap,
                                       rotary_table** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    const TableRope& rope = call.need(table, "table").rope;
    return new rotary_table{rope, to_stream(call, stream, overlap)};
  });
}

void rotary_table_free(rotary_table* table) { delete table; }

rotary_status rotary_table_rotate(const rotary_table* table, const rotary_tensor* in,
                                  const rotary_tensor* out, int64_t count,
                                  const rotary_positions* positions) {
  return apply(__func__, &TableRope::rotate, &TableRope::rotate, table, in, out, count, positions);
}

rotary_status rotary_table_unrotate(const rotary_table* table, const rotary_tensor* in,
                                    const rotary_tensor* out, int64_t count,
                                    const rotary_positions* positions) {
  return apply(__func__, &TableRope::unrotate, &TableRope::unrotate, table, in, out, count,
               positions);
}

rotary_status rotary_table_adjoint(const rotary_table* table, const rotary_tensor* in,
                                   const rotary_tensor* out, int64_t count,
                                   const rotary_positions* positions) {
  return apply(__func__, &TableRope::adjoint, &TableRope::adjoint, table, in, out, count,
               positions);
}
