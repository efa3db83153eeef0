// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Keys of a pretraining run that choose the linear attention of a new model.
#pragma once

#include "roformer/model/config.h"
#include "roformer/train/run_config.h"

namespace rotary::roformer {

/// The config with the run's keys instead of its own. Throws IoError as config_from_json() does.
Config with_linear_keys(const RunConfig& run, const Config& config);
/// Throws std::invalid_argument where a run that starts from a checkpoint has one of the keys.
void check_linear_keys_of_init(const RunConfig& run);

}  // namespace rotary::roformer
