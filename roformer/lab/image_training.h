// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Training of a vision Transformer on images:
///
///   Trained trained = train_vit(*model, data, {.plan = plan, .batches = {.rows = 512}}, run);
///
/// As train_model() does for text (training.h): a unit that was interrupted continues from its
/// checkpoint, on a CPU with the same bits.
#pragma once

#include "roformer/lab/image_data.h"
#include "roformer/lab/training.h"
#include "roformer/lab/vit.h"

namespace rotary::roformer::lab {

struct VitPlan {
  TrainPlan plan{};
  ImageBatchOptions batches{};
  double label_smoothing = 0.0;
};

/// Trains to the last step; the model is left in evaluation mode. tokens_per_second counts images.
/// Throws Stopped after writing a checkpoint, and std::runtime_error for a loss that is not finite.
Trained train_vit(VitImpl& model, const ImageData& data, const VitPlan& plan, const UnitRun& run);

}  // namespace rotary::roformer::lab
