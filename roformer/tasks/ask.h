// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Inference for evaluation: batch by batch, in the order of the examples.
#pragma once

#include <functional>
#include <memory>

#include "roformer/tasks/answers.h"

namespace rotary::roformer {

/// Without gradients.
void for_each_batch(ExampleRows rows, std::shared_ptr<const Tokenizer> tokenizer,
                    const AnswerOptions& options, const std::function<void(const Batch&)>& visit);

inline double ratio_of(std::int64_t part, std::int64_t whole) noexcept {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}
/// Harmonic mean; 0 if both are 0.
inline double f1_of(double precision, double recall) noexcept {
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0.0;
}

}  // namespace rotary::roformer
