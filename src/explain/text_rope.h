// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope of a text token, for analyses of one axis.
#pragma once

#include <string>

#include "rotary/model.h"

namespace rotary::explain {

/// The rope of a text token, which has the same position on every axis of M-RoPE: one axis. Throws
/// std::invalid_argument for axial and mixed ropes; `verb` names who cannot use them.
ModelRope text_rope(ModelRope rope, const std::string& verb);

}  // namespace rotary::explain
