// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The names of a model's classes: id2label and label2id of its config. Needs no PyTorch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "roformer/model/config.h"

namespace rotary::roformer {

/// Class 0 first; empty where the classes have no names of their own ("LABEL_0" is none).
std::vector<std::string> label_names(const Config& config);
/// num_labels follows.
void set_label_names(Config& config, std::span<const std::string> names);

}  // namespace rotary::roformer
