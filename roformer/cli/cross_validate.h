// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer finetune --folds: cross-validation.
#pragma once

#include "roformer/cli/tune_setup.h"

namespace rotary::roformer::cli {

/// Trains and tests a model for each fold, and reports their metrics. Keeps no model; writes
/// folds.json into the output folder, if there is one.
void cross_validate(const TuneOptions& options);

}  // namespace rotary::roformer::cli
