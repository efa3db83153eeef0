// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Encodings whose scores depend on queries and keys, for make_encoding().
#pragma once

#include <memory>

#include "rotary/transformer/encodings.h"

namespace rotary::transformer {

/// "shaw" (learned) or "nezha" (sinusoids).
std::shared_ptr<EncodingImpl> make_shaw(const EncodingOptions& options, bool learned);
std::shared_ptr<EncodingImpl> make_transformer_xl(const EncodingOptions& options);

}  // namespace rotary::transformer
