// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary._core.Rope: the calls of rope.h on tuples of arrays. They release the GIL.
#include "rotary/rope.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/convert.h"
#include "bindings/parts.h"
#include "bindings/positions.h"

namespace rotary::python {
namespace {

Stream stream_of(std::uintptr_t handle) {
  return {reinterpret_cast<void*>(handle)};  // NOLINT: a cudaStream_t is a number in Python
}

using Call = void (Rope::*)(const Operands&, const Positions&, Stream) const;

constexpr const char* kCallSignature =
    "(self, ins: tuple[object, ...], outs: tuple[object, ...] | None, positions: Positions, "
    "stream: int) -> None";

/// rope.<name>(ins, outs or None, positions, stream)
template <Call kCall>
void add_call(nb::class_<Rope>& rope, const char* name) {
  const std::string signature = std::string("def ") + name + kCallSignature;
  rope.def(
      name,
      [name](const Rope& self, const nb::tuple& ins, nb::handle outs, const HeldPositions& at,
             std::uintptr_t stream) {
        Memory memory;
        const std::vector<Operand> operands = operands_of(name, ins, outs, memory);
        const nb::gil_scoped_release release;
        (self.*kCall)(std::span<const Operand>(operands), at.value, stream_of(stream));
      },
      nb::arg("ins"), nb::arg("outs").none(), nb::arg("positions"), nb::arg("stream"),
      nb::sig(signature.c_str()));
}

void call_rerotate(const nb::tuple& ins, nb::handle outs, const Rope& from, const Rope& to,
                   const HeldPositions& at, std::uintptr_t stream) {
  Memory memory;
  const std::vector<Operand> operands = operands_of("rerotate", ins, outs, memory);
  const nb::gil_scoped_release release;
  rerotate(std::span<const Operand>(operands), from, to, at.value, stream_of(stream));
}

void call_cos_sin(const Rope& rope, nb::handle cos, nb::handle sin, const HeldPositions& at,
                  std::uintptr_t stream) {
  Memory memory;
  const TensorView cos_view = writable("cos_sin", cos, memory);
  const TensorView sin_view = writable("cos_sin", sin, memory);
  const nb::gil_scoped_release release;
  rope.cos_sin(cos_view, sin_view, at.value, stream_of(stream));
}

}  // namespace

void add_rope(nb::module_& m) {
  auto rope = nb::class_<Rope>(m, "Rope");
  rope.def(
      "__init__",
      [](Rope* self, const Frequencies& frequencies, nb::handle layout, nb::handle options) {
        const HeadLayout head = layout_of(layout);
        const RopeOptions settings = options_of(options);
        const nb::gil_scoped_release release;
        new (self) Rope(frequencies, head, settings);
      },
      nb::arg("frequencies"), nb::arg("layout"), nb::arg("options"),
      nb::sig("def __init__(self, frequencies: Frequencies, layout: object, "
              "options: tuple[str, object, int]) -> None"));
  add_call<&Rope::rotate>(rope, "rotate");
  add_call<&Rope::unrotate>(rope, "unrotate");
  add_call<&Rope::adjoint>(rope, "adjoint");
  add_call<&Rope::shift>(rope, "shift");
  add_norm(rope);
  rope.def("cos_sin", &call_cos_sin, nb::arg("cos"), nb::arg("sin"), nb::arg("positions"),
           nb::arg("stream"));
  rope.def_prop_ro("frequencies", &Rope::frequencies, nb::rv_policy::reference_internal);
  rope.def_prop_ro(
      "layout", [](const Rope& self) { return to_python(self.layout()); },
      nb::sig("def layout(self) -> typing.Any"));

  m.def("rerotate", &call_rerotate, nb::arg("ins"), nb::arg("outs").none(), nb::arg("source"),
        nb::arg("target"), nb::arg("positions"), nb::arg("stream"),
        nb::sig("def rerotate(ins: tuple[object, ...], outs: tuple[object, ...] | None, "
                "source: Rope, target: Rope, positions: Positions, stream: int) -> None"));
}

}  // namespace rotary::python
