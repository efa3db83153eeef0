// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The models that a page has opened, and the ropes that it shows of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "rotary/dialect.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"
#include "rotary/rotary_c.h"

namespace rotary::explorer {

/// A file as it was opened. `text` is empty for a GGUF file.
struct OpenModel {
  std::string text{};
  std::string source{};
  Model model{};
};

/// A rope for a context in use, with the handle of the C API that rotates by it.
struct OpenRope {
  ModelRope rope{};
  Frequencies frequencies{};
  std::int64_t context = 0;  // 0: the trained length
  /// Absent for a rope as the library reads it.
  std::optional<DialectRope> dialect{};
  std::shared_ptr<rotary_rope> handle{};
};

class OpenRopes {
 public:
  /// Reads a config.json, the output of `rotary inspect --json` or the beginning of a GGUF file;
  /// `source` names it in errors. Returns the number of the model. Throws as Model::read() does.
  std::int64_t open(std::string_view bytes, const std::string& source);

  /// Makes the rope that a request describes, and returns its number:
  ///   {"model": 0, "rope": "", "context": 0, "dialect": "vllm", "recipe": {"type": "yarn", ...}}
  /// Of these only "model" is required. A recipe replaces that of the rope; members that it lacks
  /// (rotary_dim, theta, axis_map, ...) are the rope's own. The oldest of many ropes are forgotten.
  std::int64_t make(const internal::Json& request);

  /// Throw std::invalid_argument for a number that was not returned above, or is forgotten.
  const OpenModel& model(std::int64_t number) const;
  const OpenRope& rope(std::int64_t number) const;

 private:
  static constexpr std::size_t kMaxModels = 16;
  static constexpr std::size_t kMaxRopes = 64;

  std::deque<OpenModel> models_{};
  std::int64_t first_model_ = 0;
  std::deque<OpenRope> ropes_{};
  std::int64_t first_rope_ = 0;
};

/// Writes cos and sin of n positions, [n x axes] row-major, to [n x pairs] each, by the C API.
void write_cos_sin(const OpenRope& rope, std::span<const double> positions, double* cosines,
                   double* sines);

}  // namespace rotary::explorer
