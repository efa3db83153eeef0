// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Charts in a build without cairo.
#include <stdexcept>

#include "roformer/lab/chart.h"

namespace rotary::roformer::lab {

bool can_draw() { return false; }

void write_chart(const Chart& /*chart*/, const std::filesystem::path& path, bool /*png*/) {
  throw std::runtime_error("[write_chart] built without cairo: cannot draw " + path.string());
}

}  // namespace rotary::roformer::lab
