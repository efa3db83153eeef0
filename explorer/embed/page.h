// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The pages of the explorer (docs/explorer/*.html) with what they show in them.
#pragma once

#include <string>
#include <string_view>

namespace rotary::explorer {

/// The page, which shows this model when it is opened. `text`: of a config.json, or what
/// `rotary inspect --json` prints; `source` names it.
std::string page_with_model(std::string_view text, std::string_view source);

/// The page of `roformer look`, which shows this JSON: {"source", "text", "tokens": [...], "heads",
/// "layers": [{"rotated", "unrotated"}]}, each [heads x tokens x tokens] as base64 of uint16, 65535
/// for a weight of 1, little-endian.
std::string page_with_attention(std::string_view json);

}  // namespace rotary::explorer
