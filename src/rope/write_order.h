// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The write order of a rope: what the caller asks for, then what the environment does.
#pragma once

#include <string_view>

#include "rotary/write_order.h"

namespace rotary::internal {

/// `asked`, with what it leaves open from ROTARY_WRITE_ORDER. Throws std::invalid_argument for a
/// value or a variable that is no write order.
WriteOrder resolve_write_order(std::string_view function, const WriteOrder& asked);

}  // namespace rotary::internal
