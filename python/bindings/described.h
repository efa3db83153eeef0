// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A rope in words and numbers, as a dict of plain values for rotary.inspection.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "explain/describe.h"
#include "explain/rope_json.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::python {

/// Table, chart, sentences, wavelengths and JSON, `columns` wide.
nanobind::dict described(const ModelRope& rope, const Frequencies& frequencies,
                         const std::vector<explain::Property>& properties,
                         const explain::Json& json, std::size_t columns);

}  // namespace rotary::python
