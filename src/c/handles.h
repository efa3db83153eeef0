// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The types behind the opaque handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "c/call.h"
#include "rotary/cuda.h"
#include "rotary/dialect.h"
#include "rotary/model.h"
#include "rotary/rope.h"
#include "rotary/rotary_c.h"
#include "rotary/table.h"

namespace rotary::c_api {

/// What a rope was made from, for those who describe it.
struct Origin {
  ModelRope rope{};
  std::int64_t context = 0;  // in use; 0: the trained length
  std::optional<DialectRope> dialect{};
};

}  // namespace rotary::c_api

// NOLINTBEGIN(readability-identifier-naming): rotary_c.h names them.

struct rotary_model {
  /// `config`: the text of a config.json, `source` its name in errors; empty for other models.
  explicit rotary_model(rotary::Model read, std::string config = {}, std::string source = {});
  /// The ropes of a dialect.
  explicit rotary_model(const rotary::DialectModel& read);
  // Not movable: callers hold pointers into the model.
  ~rotary_model() = default;
  rotary_model(const rotary_model&) = delete;
  rotary_model& operator=(const rotary_model&) = delete;

  /// One rope as C sees it; the arrays point into `model`.
  struct View {
    std::string scaling{};
    rotary_head_layout layout{};
    std::vector<const char*> axes{};
    std::vector<const char*> assumed{};
    std::vector<const char*> warnings{};
    rotary_model_rope rope{};
  };

  /// The index of the rope of that name, as Model::rope() finds it; NULL: no name.
  std::size_t find(const char* name) const;
  /// The text of the config.json; rejects a model that was not read from one.
  const std::string& require_config(const rotary::c_api::Call& call) const;

  const rotary::Model model;
  const std::string config{};
  const std::string source{};
  std::vector<rotary::DialectRope> dialect{};  // empty, or one for each of model.ropes
  std::vector<View> views{};                   // one for each of model.ropes
};

struct rotary_rope {
  rotary::Rope rope;
  /// As passed by the caller, for rotary_rope_get_options.
  rotary_threads threads{};
  /// Passed to every call.
  rotary::Stream stream{};
  /// Null for ropes from frequencies.
  std::shared_ptr<const rotary::c_api::Origin> origin{};
};

struct rotary_table {
  rotary::TableRope rope;
  rotary::Stream stream{};
};

// NOLINTEND(readability-identifier-naming)
