// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The names of a model's classes: id2label and label2id of its config. Needs no PyTorch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "roformer/model/config.h"

namespace rotary::roformer {

/// Class 0 first; empty if the classes have only default names ("LABEL_0").
std::vector<std::string> label_names(const Config& config);
/// Sets num_labels, too.
void set_label_names(Config& config, std::span<const std::string> names);

}  // namespace rotary::roformer
