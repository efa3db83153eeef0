// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a model predicts: classes with names, id2label and label2id of its config, or a number.
// Needs no PyTorch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "roformer/model/config.h"

namespace rotary::roformer {

/// Class 0 first; empty if the classes have only default names ("LABEL_0").
std::vector<std::string> label_names(const Config& config);
/// Sets num_labels, too; it is no regression.
void set_label_names(Config& config, std::span<const std::string> names);

/// Whether the model predicts a real number: RoFormerForSequenceClassification with one label, as
/// in transformers.
bool predicts_number(const Config& config) noexcept;
/// Makes a config such a model's: one label without a name, and transformers' problem_type.
void set_regression(Config& config);

}  // namespace rotary::roformer
