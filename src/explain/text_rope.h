// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope of a text token, for analyses of one axis.
#pragma once

#include <string>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

/// The rope of a text token, which has the same position on every axis of M-RoPE: one axis. Throws
/// std::invalid_argument for axial and mixed ropes; `verb` names who cannot use them.
ModelRope text_rope(ModelRope rope, const std::string& verb);

/// The frequencies of that rope, [pairs x 1], from `frequencies`, those of `rope`. Throws as above.
Frequencies text_frequencies(const ModelRope& rope, const Frequencies& frequencies,
                             const std::string& verb);

}  // namespace rotary::explain
