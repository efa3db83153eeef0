// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The explorer page (docs/explorer/index.html) with a model in it.
#pragma once

#include <string>
#include <string_view>

namespace rotary::explorer {

/// The page, which shows this model when it is opened. `text`: of a config.json, or what
/// `rotary inspect --json` prints; `source` names it.
std::string page_with_model(std::string_view text, std::string_view source);

}  // namespace rotary::explorer
