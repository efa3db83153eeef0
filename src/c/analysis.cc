// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/analysis.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "c/call.h"
#include "c/handles.h"
#include "explain/bounds.h"
#include "explain/compare.h"
#include "explain/plan_report.h"
#include "explain/rope_report.h"
#include "explain/text_rope.h"
#include "rotary/rotary_c_analysis.h"

namespace {

using rotary::AngleMethod;
using rotary::Frequencies;
using rotary::c_api::Call;
using rotary::c_api::guard;
using rotary::c_api::guard_new;
using rotary::c_api::Name;
using rotary::c_api::Origin;
using rotary::explain::Json;

static_assert(static_cast<int>(AngleMethod::kFloat32) == ROTARY_ANGLE_FLOAT32);
static_assert(static_cast<int>(AngleMethod::kBfloat16Table) == ROTARY_ANGLE_BFLOAT16_TABLE);
static_assert(static_cast<int>(AngleMethod::kBfloat16Angle) == ROTARY_ANGLE_BFLOAT16);
static_assert(static_cast<int>(AngleMethod::kFastMath) == ROTARY_ANGLE_FAST_MATH);

/// guard() for a function that returns a document.
template <typename Body>
rotary_status guard_json(const char* function, char** json, const Body& body) noexcept {
  return guard_new(function, json, "json", [&](const Call& call) {
    const std::string text = Json(body(call)).dump();
    auto copy = std::make_unique<char[]>(text.size() + 1);
    std::copy_n(text.c_str(), text.size() + 1, copy.get());
    return copy.release();
  });
}

const Origin& origin_of(const Call& call, const rotary_rope* rope, const Name& name) {
  const Origin* origin = call.need(rope, name).origin.get();
  if (origin == nullptr) {
    call.reject(name, " must be made from a model, a recipe or theta: its recipe is not known");
  }
  return *origin;
}

/// `count` values that the caller passed or wants.
template <typename T>
std::span<T> array(const Call& call, T* values, std::int64_t count, const Name& name) {
  if (count < 0) call.reject("count must not be negative, got ", count);
  if (count == 0) return {};
  return {&call.need(values, name), static_cast<std::size_t>(count)};
}

/// With one axis; `verb` names who needs it.
Frequencies one_axis(const Call& call, const rotary_rope* rope, const char* verb) {
  const rotary_rope& from = call.need(rope, "rope");
  const Frequencies& f = from.rope.frequencies();
  if (f.axes == 1) return f;
  return rotary::explain::text_frequencies(origin_of(call, rope, "rope").rope, f, verb);
}

}  // namespace

// ---- Documents ----------------------------------------------------------------------------------

// NOLINTNEXTLINE(readability-non-const-parameter): the caller's own, to be freed
void rotary_text_free(char* text) { delete[] text; }

rotary_status rotary_rope_inspect(const rotary_rope* rope, char** json) {
  return guard_json(__func__, json, [&](const Call& call) {
    const Origin& origin = origin_of(call, rope, "rope");
    return rotary::explain::rope_report(origin.rope, rope->rope.frequencies(), origin.context,
                                        origin.dialect ? &*origin.dialect : nullptr);
  });
}

rotary_status rotary_rope_bounds(const rotary_rope* rope, int64_t context, int32_t smallest_base,
                                 char** json) {
  return guard_json(__func__, json, [&](const Call& call) {
    const Origin& origin = origin_of(call, rope, "rope");
    const bool search = call.choose(smallest_base, 0, 1, "smallest_base") != 0;
    return rotary::explain::bounds_json(rotary::explain::compute_bounds(
        origin.rope, rope->rope.frequencies(), context,
        search ? rotary::explain::SmallestBase::kYes : rotary::explain::SmallestBase::kNo));
  });
}

rotary_status rotary_rope_diff(const rotary_rope* a, const rotary_rope* b, char** json) {
  return guard_json(__func__, json, [&](const Call& call) {
    const Origin& origin_a = origin_of(call, a, "a");
    const Origin& origin_b = origin_of(call, b, "b");
    return rotary::explain::comparison_json(rotary::explain::compare(
        origin_a.rope, a->rope.frequencies(), origin_b.rope, b->rope.frequencies()));
  });
}

rotary_status rotary_model_plan(const rotary_model* model, const char* name, int64_t context,
                                const char* engine, char** json) {
  return guard_json(__func__, json, [&](const Call& call) {
    const rotary_model& from = call.need(model, "model");
    return rotary::explain::plan_json(rotary::explain::report_plan(
        from.require_config(call), from.source, name == nullptr ? "" : name, context,
        engine == nullptr ? "" : engine));
  });
}

rotary_status rotary_dialect_list(char** json) {
  return guard_json(__func__, json, [](const Call&) { return rotary::explain::dialects_json(); });
}

// ---- Curves -------------------------------------------------------------------------------------

rotary_status rotary_rope_scores(const rotary_rope* rope, const double* offsets, int64_t count,
                                 double* scores) {
  return guard(__func__, [&](const Call& call) {
    const Frequencies& f = call.need(rope, "rope").rope.frequencies();
    constexpr std::int64_t kMaxCount = std::int64_t{1} << 32;  // times the axes: no overflow
    if (count > kMaxCount) call.reject("count must be at most ", kMaxCount, ", got ", count);
    const auto out = array(call, scores, count, "scores");
    const auto made = relative_scores(f, array(call, offsets, count * f.axes, "offsets"));
    std::copy(made.begin(), made.end(), out.begin());
  });
}

rotary_status rotary_rope_decay(const rotary_rope* rope, const double* distances, int64_t count,
                                double* bound) {
  return guard(__func__, [&](const Call& call) {
    const Frequencies f = one_axis(call, rope, "decay");
    const auto out = array(call, bound, count, "bound");
    const auto made = decay(f, array(call, distances, count, "distances"));
    std::copy(made.begin(), made.end(), out.begin());
  });
}

rotary_status rotary_rope_angle_errors(const rotary_rope* rope, int32_t method,
                                       const int64_t* positions, int64_t count, double* values,
                                       double* angles, int64_t* pairs) {
  return guard(__func__, [&](const Call& call) {
    const Frequencies f = one_axis(call, rope, "precision");
    const auto by = static_cast<AngleMethod>(
        call.choose(method, ROTARY_ANGLE_FLOAT32, ROTARY_ANGLE_FAST_MATH, "method"));
    const auto at = array(call, positions, count, "positions");
    const auto out = array(call, values, count, "values");
    const std::vector<rotary::AngleError> errors = angle_errors(f, by, at);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      out[i] = errors[i].value;
      if (angles != nullptr) angles[i] = errors[i].angle;
      if (pairs != nullptr) pairs[i] = errors[i].pair;
    }
  });
}
