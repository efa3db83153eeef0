// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Names of tensors: a model's parameters have those of a RoFormer, files those of their family.
//
//   roformer.encoder.layer.0.output.dense.weight   RoFormer, with a head
//   encoder.layer.0.output.dense.weight            without one
//   bert.encoder.layer.0.output.dense.weight       BERT
//   roformer.encoder.layer.0.output.LayerNorm.gamma, .beta    converted from TensorFlow
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "roformer/model/config.h"

namespace rotary::roformer {

/// Tensors that a language model may have twice, by the names of parameters.
inline constexpr std::string_view kWordEmbeddings = "roformer.embeddings.word_embeddings.weight";
inline constexpr std::string_view kDecoder = "cls.predictions.decoder.weight";
inline constexpr std::string_view kDecoderBias = "cls.predictions.decoder.bias";
inline constexpr std::string_view kPredictionsBias = "cls.predictions.bias";

/// The name of a parameter in a file that transformers reads as this model.
std::string file_name_of(const std::string& parameter, const Config& config);

/// The names under which a checkpoint may have a parameter, the usual one first.
std::vector<std::string> file_names_of(const std::string& parameter, const Config& config);

/// Whether the tensor is one of those that are made from the config.
bool is_position_table(std::string_view name);

}  // namespace rotary::roformer
