// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/norm.h"

#include <vector>

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/rope.h"
#include "rotary/rotary_c.h"

namespace {

using rotary::HeadNorm;
using rotary::NormKind;
using rotary::NormOperand;
using rotary::NormOrder;
using rotary::NormRotation;
using rotary::NormRounding;
using rotary::NormScope;
using rotary::c_api::Call;
using rotary::c_api::guard;
using rotary::c_api::Name;
using rotary::c_api::OperandList;
using rotary::c_api::TensorArray;

// Enumerators have the same order in both languages.
static_assert(static_cast<int>(NormKind::kNone) == ROTARY_NORM_NONE);
static_assert(static_cast<int>(NormKind::kLayer) == ROTARY_NORM_LAYER);
static_assert(static_cast<int>(NormRounding::kEveryStep) == ROTARY_NORM_ROUND_EVERY_STEP);
static_assert(static_cast<int>(NormScope::kAllHeads) == ROTARY_NORM_OF_ALL_HEADS);
static_assert(static_cast<int>(NormOrder::kAfterRotation) == ROTARY_NORM_AFTER_ROTATION);
static_assert(static_cast<int>(NormRotation::kInverse) == ROTARY_NORM_UNROTATE);

}  // namespace

HeadNorm rotary::c_api::to_norm(const Call& call, const rotary_norm* given) {
  constexpr Name kName("norm");
  const rotary_norm norm = call.read(given, kName);
  const auto choose = [&call, &kName](std::int32_t value, std::int32_t highest,
                                      const char* member) {
    return call.choose(value, 0, highest, kName.dot(member));
  };
  return {.kind = static_cast<NormKind>(choose(norm.kind, ROTARY_NORM_LAYER, "kind")),
          .eps = norm.eps,
          .rounding = static_cast<NormRounding>(
              choose(norm.rounding, ROTARY_NORM_ROUND_EVERY_STEP, "rounding")),
          .sum_lanes = norm.sum_lanes == 0 ? 4 : norm.sum_lanes,
          .scope = static_cast<NormScope>(choose(norm.scope, ROTARY_NORM_OF_ALL_HEADS, "scope")),
          .order = static_cast<NormOrder>(choose(norm.order, ROTARY_NORM_AFTER_ROTATION, "order")),
          .rotation =
              static_cast<NormRotation>(choose(norm.rotation, ROTARY_NORM_UNROTATE, "rotation"))};
}

rotary_status rotary_rope_norm_rotate(const rotary_rope* rope, const rotary_tensor* in,
                                      const rotary_tensor* out, int64_t count,
                                      const rotary_tensor* weights, const rotary_tensor* biases,
                                      const rotary_norm* norm, const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    const HeadNorm how = to_norm(call, norm);
    const OperandList operands(call, in, out, count);
    std::vector<NormOperand> normed;
    for (std::size_t i = 0; i < operands.list().size(); ++i) {
      const auto row = [&call, i](const rotary_tensor* rows, const char* name) {
        return rows == nullptr ? rotary::TensorView{} : TensorArray(call, rows, name).if_given(i);
      };
      normed.emplace_back(operands.list()[i], row(weights, "weights"), row(biases, "biases"));
    }
    by.rope.norm_rotate(normed, how, to_positions(call, positions, "positions"));
  });
}
