// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// In a build without libjpeg.
#include "roformer/lab/image_data.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {

bool can_read_jpeg() { return false; }

void read_jpeg(const std::filesystem::path& path, std::int64_t /*size*/, std::uint8_t* /*to*/) {
  throw IoError(path.string(), IoError::kNoOffset,
                "cannot be read: this build has no libjpeg (Debian and Ubuntu: libjpeg-dev)");
}

}  // namespace rotary::roformer::lab
