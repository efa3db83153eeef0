// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/masking.h"

#include "roformer/data/batch.h"

namespace rotary::roformer {

void mask_tokens(const Masking& masking, std::int32_t mask_id, std::uint32_t vocabulary_size,
                 Random& random, std::span<const MaskRole> roles, std::span<std::int64_t> ids,
                 std::span<std::int64_t> labels) {
  bool selected = false;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    labels[i] = kIgnoreIndex;
    if (roles[i] == MaskRole::kNever) continue;
    if (roles[i] == MaskRole::kWordStart || masking.unit == MaskUnit::kToken) {
      selected = random.uniform() < masking.rate;
    }
    if (!selected) continue;
    labels[i] = ids[i];
    const double share = random.uniform();
    if (share < masking.mask_share) {
      ids[i] = mask_id;
    } else if (share < masking.mask_share + masking.random_share) {
      ids[i] = vocabulary_size > 1 ? 1 + random.below(vocabulary_size - 1) : 0;
    }
  }
}

}  // namespace rotary::roformer
