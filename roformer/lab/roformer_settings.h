// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Settings of the lab `roformer`.
#pragma once

#include "json/json.h"

namespace rotary::roformer::lab {

internal::Json roformer_defaults(bool quick);

}  // namespace rotary::roformer::lab
