// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The parts of the module rotary._core, one file each.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>

#include "rotary/norm.h"
#include "rotary/rope.h"

namespace rotary::python {

void add_analysis(nanobind::module_& m);
void add_dialects(nanobind::module_& m);
void add_errors(nanobind::module_& m);
void add_frequencies(nanobind::module_& m);
void add_kv_cache(nanobind::module_& m);
void add_positions(nanobind::module_& m);
void add_rope(nanobind::module_& m);
void add_model(nanobind::module_& m);

/// kind, eps, rounding, scope, order, inverse
using GivenNorm = std::tuple<std::string, double, std::string, std::string, std::string, bool>;
HeadNorm norm_of(const GivenNorm& given);

/// Rope.norm_rotate.
void add_norm(nanobind::class_<Rope>& rope);

}  // namespace rotary::python
