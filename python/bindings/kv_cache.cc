// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary._core: the calls of kv_cache.h. They release the GIL.
#include "rotary/kv_cache.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>

#include "bindings/arrays.h"
#include "bindings/parts.h"
#include "bindings/positions.h"
#include "rotary/rope.h"

namespace rotary::python {
namespace {

ConstTensorView if_given(std::string_view function, nb::handle object, Memory& memory) {
  return object.is_none() ? ConstTensorView{} : readable(function, object, memory);
}

/// (data, scale or None, computed scales or None, whether scales multiply)
StoredTensor stored_of(std::string_view function, const nb::tuple& given, Memory& memory) {
  StoredTensor store{.data = writable(function, given[0], memory),
                     .scale = if_given(function, given[1], memory),
                     .use = nb::cast<bool>(given[3]) ? ScaleUse::kMultiply : ScaleUse::kDivide};
  if (!given[2].is_none()) store.computed_scales = writable(function, given[2], memory);
  return store;
}

/// (indices, block table or None, sequences or None)
Slots slots_of(std::string_view function, const nb::tuple& given, Memory& memory) {
  const ConstTensorView indices = readable(function, given[0], memory);
  if (given[1].is_none()) return Slots::flat(indices);
  return Slots::paged(readable(function, given[1], memory), indices,
                      if_given(function, given[2], memory));
}

void append_kv(const Rope& rope, nb::handle q, nb::handle q_out, nb::handle k, nb::handle v,
               const nb::tuple& keys, const nb::tuple& values, const nb::tuple& slots,
               const HeldPositions& at, const GivenNorm& norm, const nb::tuple& weights,
               const nb::tuple& biases) {
  constexpr std::string_view kName = "append_kv";
  Memory memory;
  KvAppend tensors{.k = readable(kName, k, memory),
                   .v = readable(kName, v, memory),
                   .keys = stored_of(kName, keys, memory),
                   .values = stored_of(kName, values, memory),
                   .slots = slots_of(kName, slots, memory),
                   .norm = norm_of(norm),
                   .q_weight = if_given(kName, weights[0], memory),
                   .k_weight = if_given(kName, weights[1], memory),
                   .q_bias = if_given(kName, biases[0], memory),
                   .k_bias = if_given(kName, biases[1], memory)};
  if (q_out.is_none()) {
    tensors.q = Operand(writable(kName, q, memory));
  } else {
    const ConstTensorView in = readable(kName, q, memory);
    tensors.q = Operand(in, writable(kName, q_out, memory));
  }
  const nb::gil_scoped_release release;
  rope.append(tensors, at.value);
}

void shift_cached(const Rope& rope, const nb::tuple& keys, const nb::tuple& slots,
                  const HeldPositions& delta) {
  Memory memory;
  const StoredTensor store = stored_of("shift_cached_", keys, memory);
  const Slots at = slots_of("shift_cached_", slots, memory);
  const nb::gil_scoped_release release;
  rope.shift_cached(store, at, delta.value);
}

void call_rerotate_cached(const Rope& from, const Rope& to, const nb::tuple& keys,
                          const nb::tuple& slots, const HeldPositions& positions) {
  Memory memory;
  const StoredTensor store = stored_of("rerotate_cached_", keys, memory);
  const Slots at = slots_of("rerotate_cached_", slots, memory);
  const nb::gil_scoped_release release;
  rerotate_cached(store, at, from, to, positions.value);
}

}  // namespace

void add_kv_cache(nb::module_& m) {
  m.def("append_kv", &append_kv, nb::arg("rope"), nb::arg("q"), nb::arg("q_out").none(),
        nb::arg("k"), nb::arg("v"), nb::arg("keys"), nb::arg("values"), nb::arg("slots"),
        nb::arg("positions"), nb::arg("norm"), nb::arg("weights"), nb::arg("biases"),
        nb::sig("def append_kv(rope: Rope, q: object, q_out: object | None, k: object, v: object, "
                "keys: tuple[object, ...], values: tuple[object, ...], "
                "slots: tuple[object, ...], positions: Positions, "
                "norm: tuple[str, float, str, str, str, bool], "
                "weights: tuple[object | None, object | None], "
                "biases: tuple[object | None, object | None]) -> None"));
  m.def("shift_cached", &shift_cached, nb::arg("rope"), nb::arg("keys"), nb::arg("slots"),
        nb::arg("delta"),
        nb::sig("def shift_cached(rope: Rope, keys: tuple[object, ...], "
                "slots: tuple[object, ...], delta: Positions) -> None"));
  m.def("rerotate_cached", &call_rerotate_cached, nb::arg("source"), nb::arg("target"),
        nb::arg("keys"), nb::arg("slots"), nb::arg("positions"),
        nb::sig("def rerotate_cached(source: Rope, target: Rope, keys: tuple[object, ...], "
                "slots: tuple[object, ...], positions: Positions) -> None"));
}

}  // namespace rotary::python
