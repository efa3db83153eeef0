// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/kv_cache.h"

#include "c/call.h"
#include "c/convert.h"
#include "c/handles.h"
#include "rotary/rope.h"
#include "rotary/rotary_c.h"

namespace {

using rotary::ConstTensorView;
using rotary::Operand;
using rotary::Slots;
using rotary::StoredTensor;
using rotary::TensorView;
using rotary::c_api::Call;
using rotary::c_api::guard;
using rotary::c_api::Name;

static_assert(static_cast<int>(rotary::ScaleUse::kMultiply) == ROTARY_SCALE_MULTIPLY);

/// An empty view for NULL.
TensorView if_given(const Call& call, const rotary_tensor* given, const Name& name) {
  return given == nullptr ? TensorView{} : to_tensor(call, given, name);
}

StoredTensor to_stored(const Call& call, const rotary_stored* given, const Name& name) {
  const rotary_stored read = call.read(given, name);
  return {.data = to_tensor(call, &call.need(read.data, name.dot("data")), name.dot("data")),
          .scale = if_given(call, read.scale, name.dot("scale")),
          .computed_scales = if_given(call, read.computed_scales, name.dot("computed_scales")),
          .use = static_cast<rotary::ScaleUse>(
              call.choose(read.use, ROTARY_SCALE_DIVIDE, ROTARY_SCALE_MULTIPLY, name.dot("use")))};
}

Slots to_slots(const Call& call, const rotary_slots* given) {
  const Name name("slots");
  const rotary_slots read = call.read(given, name);
  const ConstTensorView indices =
      to_tensor(call, &call.need(read.indices, name.dot("indices")), name.dot("indices"));
  if (read.block_table == nullptr) {
    if (read.sequences != nullptr) call.reject("slots.sequences need a block_table");
    return Slots::flat(indices);
  }
  return Slots::paged(to_tensor(call, read.block_table, name.dot("block_table")), indices,
                      if_given(call, read.sequences, name.dot("sequences")));
}

/// The tensors of an append, without a norm.
struct AppendArguments {
  const rotary_tensor* q;
  const rotary_tensor* q_out;
  const rotary_tensor* k;
  const rotary_tensor* v;
  const rotary_stored* keys;
  const rotary_stored* values;
  const rotary_slots* slots;
};

rotary::KvAppend to_append(const Call& call, const AppendArguments& given) {
  rotary::KvAppend tensors{.k = to_tensor(call, &call.need(given.k, "k"), "k"),
                           .v = if_given(call, given.v, "v"),
                           .keys = to_stored(call, given.keys, "keys"),
                           .slots = to_slots(call, given.slots)};
  if (given.values != nullptr) tensors.values = to_stored(call, given.values, "values");
  if (given.q != nullptr) {
    const TensorView in = to_tensor(call, given.q, "q");
    tensors.q =
        given.q_out == nullptr ? Operand(in) : Operand(in, to_tensor(call, given.q_out, "q_out"));
  } else if (given.q_out != nullptr) {
    call.reject("q_out must be NULL without q");
  }
  return tensors;
}

/// A norm of q and k.
struct NormArguments {
  const rotary_norm* norm;
  const rotary_tensor* q_weight;
  const rotary_tensor* k_weight;
  const rotary_tensor* q_bias;
  const rotary_tensor* k_bias;
};

void append_with_norm(const Call& call, const rotary_rope* rope, const AppendArguments& given,
                      const NormArguments& norm, const rotary_positions* positions) {
  const rotary_rope& by = call.need(rope, "rope");
  rotary::KvAppend tensors = to_append(call, given);
  tensors.norm = to_norm(call, norm.norm);
  tensors.q_weight = if_given(call, norm.q_weight, "q_weight");
  tensors.k_weight = if_given(call, norm.k_weight, "k_weight");
  tensors.q_bias = if_given(call, norm.q_bias, "q_bias");
  tensors.k_bias = if_given(call, norm.k_bias, "k_bias");
  by.rope.append(tensors, to_positions(call, positions, "positions"));
}

}  // namespace

rotary_status rotary_rope_append(const rotary_rope* rope, const rotary_tensor* q,
                                 const rotary_tensor* q_out, const rotary_tensor* k,
                                 const rotary_tensor* v, const rotary_stored* keys,
                                 const rotary_stored* values, const rotary_slots* slots,
                                 const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    by.rope.append(to_append(call, {q, q_out, k, v, keys, values, slots}),
                   to_positions(call, positions, "positions"));
  });
}

rotary_status rotary_rope_norm_append(const rotary_rope* rope, const rotary_tensor* q,
                                      const rotary_tensor* q_out, const rotary_tensor* k,
                                      const rotary_tensor* v, const rotary_tensor* q_weight,
                                      const rotary_tensor* k_weight, const rotary_norm* norm,
                                      const rotary_stored* keys, const rotary_stored* values,
                                      const rotary_slots* slots,
                                      const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    append_with_norm(call, rope, {q, q_out, k, v, keys, values, slots},
                     {norm, q_weight, k_weight, nullptr, nullptr}, positions);
  });
}

rotary_status rotary_rope_norm_append_biased(
    const rotary_rope* rope, const rotary_tensor* q, const rotary_tensor* q_out,
    const rotary_tensor* k, const rotary_tensor* v, const rotary_tensor* q_weight,
    const rotary_tensor* k_weight, const rotary_tensor* q_bias, const rotary_tensor* k_bias,
    const rotary_norm* norm, const rotary_stored* keys, const rotary_stored* values,
    const rotary_slots* slots, const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    append_with_norm(call, rope, {q, q_out, k, v, keys, values, slots},
                     {norm, q_weight, k_weight, q_bias, k_bias}, positions);
  });
}

rotary_status rotary_rope_rotate_to(const rotary_rope* rope, const rotary_tensor* in,
                                    const rotary_stored* out, int32_t inverse,
                                    const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    const TensorView from = to_tensor(call, &call.need(in, "in"), "in");
    const StoredTensor to = to_stored(call, out, "out");
    const rotary::Positions at = to_positions(call, positions, "positions");
    call.choose(inverse, 0, 1, "inverse") == 1 ? by.rope.unrotate_to(from, to, at)
                                               : by.rope.rotate_to(from, to, at);
  });
}

rotary_status rotary_rope_shift_cached(const rotary_rope* rope, const rotary_stored* keys,
                                       const rotary_slots* slots, const rotary_positions* delta) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& by = call.need(rope, "rope");
    by.rope.shift_cached(to_stored(call, keys, "keys"), to_slots(call, slots),
                         to_positions(call, delta, "delta"));
  });
}

rotary_status rotary_rope_rerotate_cached(const rotary_rope* from, const rotary_rope* to,
                                          const rotary_stored* keys, const rotary_slots* slots,
                                          const rotary_positions* positions) {
  return guard(__func__, [&](const Call& call) {
    const rotary_rope& source = call.need(from, "from");
    const rotary_rope& target = call.need(to, "to");
    rerotate_cached(to_stored(call, keys, "keys"), to_slots(call, slots), source.rope, target.rope,
                    to_positions(call, positions, "positions"));
  });
}
