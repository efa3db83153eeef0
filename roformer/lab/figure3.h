// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The loss curves of figure 3 of the RoFormer paper (Su et al. 2021, arXiv:2104.09864).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rotary::roformer::lab {

struct PublishedPoint {
  double step;
  double loss;  // nats
};

/// A curve of the figure: read from the vector paths of the PDF (version 5) and thinned, about
/// evenly by the logarithm of the step.
struct PublishedCurve {
  std::string_view name;
  std::span<const PublishedPoint> points;
};

/// The left side: masked LM of RoFormer and of BERT, base size, 512 tokens.
std::span<const PublishedCurve> published_masked_curves() noexcept;
/// The right side: Performer, 12 layers of 768, on the characters of enwik8, with RoPE and without.
std::span<const PublishedCurve> published_performer_curves() noexcept;

}  // namespace rotary::roformer::lab
