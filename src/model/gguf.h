// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of a GGUF file on disk, of which only the header and a few tensors are read.
#pragma once

#include <string>

#include "io/file_reader.h"
#include "rotary/model.h"

namespace rotary::internal {

/// Throws IoError and std::invalid_argument that name `source`.
Model read_gguf(const FileReader& file, const std::string& source);

}  // namespace rotary::internal
