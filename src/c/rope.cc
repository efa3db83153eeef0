// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/rope.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/rotary_c.h"

namespace {

using rotary::Frequencies;
using rotary::HeadLayout;
using rotary::Operands;
using rotary::Positions;
using rotary::Recipe;
using rotary::Rope;
using rotary::Stream;
using rotary::c_api::Call;
using rotary::c_api::from_frequencies;
using rotary::c_api::from_layout;
using rotary::c_api::guard;
using rotary::c_api::guard_new;
using rotary::c_api::Name;
using rotary::c_api::OperandList;
using rotary::c_api::Origin;
using rotary::c_api::TensorArray;
using rotary::c_api::to_layout;
using rotary::c_api::to_recipe;
using rotary::c_api::to_stream;
using rotary::c_api::to_threads;

using RopeMethod = void (Rope::*)(const Operands&, const Positions&, Stream) const;

rotary_status apply(const char* function, RopeMethod method, const rotary_rope* rope,
                    const rotary_tensor* in, const rotary_tensor* out, std::int64_t count,
                    const rotary_positions* positions, const Name& positions_name) {
  return guard(function, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    const OperandList operands(call, in, out, count);
    (by.rope.*method)(operands.list(), to_positions(call, positions, positions_name), by.stream);
  });
}

rotary_rope* make_rope(const Call& call, Frequencies frequencies, const HeadLayout& layout,
                       const rotary_rope_options* options,
                       std::shared_ptr<const Origin> origin = nullptr) {
  const auto [rope_options, threads] = to_options(call, options);
  return new rotary_rope{Rope(std::move(frequencies), layout, rope_options), threads, Stream{},
                         std::move(origin)};
}

/// The rope of a recipe, which has no name, no file and no trained context.
rotary_rope* make_rope(const Call& call, const Recipe& recipe, std::int64_t context,
                       const HeadLayout& layout, const rotary_rope_options* options) {
  Origin origin{.context = context};
  origin.rope.recipe = recipe;
  origin.rope.layout = layout;
  const std::int64_t axes = axes_of(recipe.axes);
  for (std::int64_t axis = 1; axis < axes; ++axis) {
    origin.rope.axes.push_back("axis " + std::to_string(axis));
  }
  if (axes > 1) origin.rope.axes.front() = "axis 0";
  return make_rope(call, rotary::make_frequencies(recipe, context), layout, options,
                   std::make_shared<const Origin>(std::move(origin)));
}

rotary::ParameterGradients to_gradients(const Call& call, const rotary_gradients* given) {
  if (given == nullptr) return {};
  const rotary_gradients wanted = call.read(given, "gradients");
  if (wanted.num_frequencies < 0) {
    call.reject("gradients.num_frequencies must not be negative, got ", wanted.num_frequencies);
  }
  if (wanted.num_frequencies > 0) call.need(wanted.frequencies, "gradients.frequencies");
  if (wanted.workspace_size > 0) {
    call.need(static_cast<std::byte*>(wanted.workspace), "gradients.workspace");
  }
  rotary::ParameterGradients result{
      .frequencies = {wanted.frequencies, static_cast<std::size_t>(wanted.num_frequencies)},
      .scale = wanted.scale,
      .workspace = {static_cast<std::byte*>(wanted.workspace), wanted.workspace_size}};
  if (wanted.positions != nullptr) {
    result.positions = to_tensor(call, wanted.positions, "gradients.positions");
  }
  return result;
}

}  // namespace

// ---- Made and freed -----------------------------------------------------------------------------

rotary_status rotary_rope_from_model(const rotary_model* model, const char* name, int64_t context,
                                     const rotary_rope_options* options, rotary_rope** rope) {
  return guard_new(__func__, rope, "rope", [&](const Call& call) {
    const rotary_model& from = call.need(model, "model");
    const std::size_t index = from.find(name);
    Origin origin{.rope = from.model.ropes[index], .context = context};
    if (!from.dialect.empty()) origin.dialect = from.dialect[index];
    Frequencies frequencies = origin.dialect ? origin.dialect->make_frequencies(context)
                                             : origin.rope.make_frequencies(context);
    const HeadLayout layout = origin.rope.layout;
    return make_rope(call, std::move(frequencies), layout, options,
                     std::make_shared<const Origin>(std::move(origin)));
  });
}

rotary_status rotary_rope_from_frequencies(const rotary_frequencies* frequencies,
                                           const rotary_head_layout* layout,
                                           const rotary_rope_options* options, rotary_rope** rope) {
  return guard_new(__func__, rope, "rope", [&](const Call& call) {
    const HeadLayout head = to_layout(call, layout);
    return make_rope(call, to_frequencies(call, frequencies, head.head_dim), head, options);
  });
}

rotary_status rotary_rope_from_theta(int64_t rotary_dim, double theta,
                                     const rotary_head_layout* layout,
                                     const rotary_rope_options* options, rotary_rope** rope) {
  return guard_new(__func__, rope, "rope", [&](const Call& call) {
    const HeadLayout head = to_layout(call, layout);
    return make_rope(call, {.rotary_dim = rotary_dim, .theta = theta}, 0, head, options);
  });
}

rotary_status rotary_rope_from_recipe(const rotary_recipe* recipe, int64_t context,
                                      const rotary_head_layout* layout,
                                      const rotary_rope_options* options, rotary_rope** rope) {
  return guard_new(__func__, rope, "rope", [&](const Call& call) {
    const Recipe read = to_recipe(call, recipe);
    return make_rope(call, read, context, to_layout(call, layout), options);
  });
}

rotary_status rotary_rope_with_threads(const rotary_rope* rope, const rotary_threads* threads,
                                       rotary_rope** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    call.need(threads, "threads");
    const rotary_threads read = read_threads(call, threads);
    const rotary_rope& from = call.need(rope, "rope");
    return new rotary_rope{from.rope.with_threads(to_threads(read)), read, from.stream,
                           from.origin};
  });
}

rotary_status rotary_rope_with_stream(const rotary_rope* rope, void* stream, int32_t overlap,
                                      rotary_rope** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    const rotary_rope& from = call.need(rope, "rope");
    return new rotary_rope{from.rope, from.threads, to_stream(call, stream, overlap), from.origin};
  });
}

rotary_status rotary_rope_with_inverse_growth(const rotary_rope* rope, rotary_rope** result) {
  return guard_new(__func__, result, "result", [&](const Call& call) {
    const auto& [from, threads, stream, origin] = call.need(rope, "rope");
    return new rotary_rope{
        // without its origin, whose recipe has the other growth
        Rope(with_inverse_growth(from.frequencies()), from.layout(), from.options()), threads,
        stream};
  });
}

void rotary_rope_free(rotary_rope* rope) { delete rope; }

// ---- What it is made of -------------------------------------------------------------------------

rotary_status rotary_rope_get_frequencies(const rotary_rope* rope,
                                          rotary_frequencies* frequencies) {
  return guard(__func__, [&](const Call& call) {
    call.write(from_frequencies(call.need(rope, "rope").rope.frequencies()), frequencies,
               "frequencies");
  });
}

rotary_status rotary_rope_get_layout(const rotary_rope* rope, rotary_head_layout* layout) {
  return guard(__func__, [&](const Call& call) {
    call.write(from_layout(call.need(rope, "rope").rope.layout()), layout, "layout");
  });
}

rotary_status rotary_rope_get_options(const rotary_rope* rope, rotary_rope_options* options) {
  return guard(__func__, [&](const Call& call) {
    const rotary::RopeOptions& from = call.need(rope, "rope").rope.options();
    rotary_rope_options result = rotary_rope_options_init();
    result.precision = static_cast<std::int32_t>(from.precision);
    result.cache_policy = static_cast<std::int32_t>(from.cache.policy);
    result.cache_positions = from.cache.positions;
    result.threads = &rope->threads;
    call.write(result, options, "options");
  });
}

// ---- Rotation -----------------------------------------------------------------------------------

rotary_status rotary_rope_rotate(const rotary_rope* rope, const rotary_tensor* in,
                                 const rotary_tensor* out, int64_t count,
                                 const rotary_positions* positions) {
  return apply(__func__, &Rope::rotate, rope, in, out, count, positions, "positions");
}

rotary_status rotary_rope_unrotate(const rotary_rope* rope, const rotary_tensor* in,
                                   const rotary_tensor* out, int64_t count,
                                   const rotary_positions* positions) {
  return apply(__func__, &Rope::unrotate, rope, in, out, count, positions, "positions");
}

rotary_status rotary_rope_adjoint(const rotary_rope* rope, const rotary_tensor* in,
                                  const rotary_tensor* out, int64_t count,
                                  const rotary_positions* positions) {
  return apply(__func__, &Rope::adjoint, rope, in, out, count, positions, "positions");
}

rotary_status rotary_rope_shift(const rotary_rope* rope, const rotary_tensor* in,
                                const rotary_tensor* out, int64_t count,
                                const rotary_positions* delta) {
  return apply(__func__, &Rope::shift, rope, in, out, count, delta, "delta");
}

rotary_status rotary_rope_rerotate(const rotary_rope* from, const rotary_rope* to,
                                   const rotary_tensor* in, const rotary_tensor* out, int64_t count,
                                   const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const Rope& old_rope = call.need(from, "from").rope;
    const rotary_rope& by = call.need(to, "to");
    const OperandList operands(call, in, out, count);
    rotary::rerotate(operands.list(), old_rope, by.rope, to_positions(call, positions, "positions"),
                     by.stream);
  });
}

rotary_status rotary_rope_gradient(const rotary_rope* rope, const rotary_tensor* in,
                                   const rotary_tensor* grad_out, const rotary_tensor* grad_in,
                                   int64_t count, const rotary_positions* positions,
                                   const rotary_gradients* gradients) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    std::array<rotary::GradientOperand, rotary::kMaxOperands> operands{};
    const std::size_t size = check_count(call, count);
    for (std::size_t i = 0; i < size; ++i) {
      operands[i].in = TensorArray(call, in, "in")[i];
      operands[i].grad_out = TensorArray(call, grad_out, "grad_out")[i];
      if (grad_in != nullptr)
        operands[i].grad_in = TensorArray(call, grad_in, "grad_in").if_given(i);
    }
    const rotary::ParameterGradients parameters = to_gradients(call, gradients);
    by.rope.gradient({operands.data(), size}, to_positions(call, positions, "positions"),
                     parameters, by.stream);
  });
}

rotary_status rotary_rope_gradient_workspace(const rotary_rope* rope, int64_t batch, int64_t tokens,
                                             size_t* bytes) {
  return guard(__func__, [&](const Call& call) {
    const Rope& of = call.need(rope, "rope").rope;
    if (batch < 0) call.reject("batch must not be negative, got ", batch);
    if (tokens < 0) call.reject("tokens must not be negative, got ", tokens);
    call.need(bytes, "bytes") = of.gradient_workspace(batch, tokens);
  });
}

rotary_status rotary_rope_cos_sin(const rotary_rope* rope, const rotary_tensor* cosines,
                                  const rotary_tensor* sines, const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& of = call.need(rope, "rope");
    const rotary::TensorView cos = to_tensor(call, cosines, "cosines");
    const rotary::TensorView sin = to_tensor(call, sines, "sines");
    of.rope.cos_sin(cos, sin, to_positions(call, positions, "positions"), of.stream);
  });
}
