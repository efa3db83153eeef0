// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The types behind the opaque handles.
#pragma once

#include <string>
#include <vector>

#include "rotary/cuda.h"
#include "rotary/model.h"
#include "rotary/rope.h"
#include "rotary/rotary_c.h"
#include "rotary/table.h"

// NOLINTBEGIN(readability-identifier-naming): rotary_c.h names them.

struct rotary_model {
  explicit rotary_model(rotary::Model read);
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

  const rotary::Model model;
  std::vector<View> views{};  // one for each of model.ropes
};

struct rotary_rope {
  rotary::Rope rope;
  /// As passed by the caller, for rotary_rope_get_options.
  rotary_threads threads{};
  /// Passed to every call.
  rotary::Stream stream{};
};

struct rotary_table {
  rotary::TableRope rope;
  rotary::Stream stream{};
};

// NOLINTEND(readability-identifier-naming)
