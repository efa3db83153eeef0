// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary._core: conversions and calls. The library validates; the package around it is the API.
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/parts.h"
#include "rotary/cpu.h"
#include "rotary/cuda.h"
#include "rotary/version.h"

NB_MODULE(_core, m) {
#ifdef NDEBUG
  // Ropes that are alive when the interpreter ends are no error.
  nanobind::set_leak_warnings(false);
#endif
  rotary::python::add_errors(m);
  rotary::python::add_frequencies(m);
  rotary::python::add_positions(m);
  rotary::python::add_rope(m);
  rotary::python::add_kv_cache(m);
  rotary::python::add_model(m);
  rotary::python::add_analysis(m);
  rotary::python::add_dialects(m);

  m.attr("version") = ROTARY_VERSION_STRING;
  m.def("cpu_target", &rotary::cpu_target, "Instructions that the CPU engine uses: \"AVX3\", ...");
  m.def("cpu_targets", &rotary::cpu_targets, "Those that this machine can run, best first.");
  m.def("has_cuda", &rotary::has_cuda, "Whether this build holds the CUDA engine.");
  m.def("cuda_device_count", &rotary::cuda_device_count, "GPUs that can be used.");
}
