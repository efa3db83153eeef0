// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Runs the units of a lab and keeps their rows in a folder:
///
///   DIR/results.json   rows of finished units, replaced atomically after each
///   DIR/report.md      tables, with plots beside it (SVG and PNG)
///   DIR/runs/          checkpoints of units that were interrupted
///
/// A lab that was interrupted continues with the units that are missing.
#pragma once

#include <functional>
#include <string>

#include "roformer/lab/lab.h"

namespace rotary::roformer::lab {

struct LabEvents {
  /// A line of text for the user.
  std::function<void(const std::string& line)> say{};
  /// A line that replaces the one before: "12 of 24 units, 48 % ...".
  std::function<void(const std::string& line)> show{};
  /// Whether to stop; called from several threads.
  std::function<bool()> stop{};
};

/// The folder holds results of another lab, setting or machine.
class OtherLab : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Runs what is missing in options.folder. False if it was stopped. Throws OtherLab, and
/// std::invalid_argument for variants that the lab does not have.
bool run_lab(std::string_view name, Lab& lab, const LabOptions& options, const LabEvents& events);

}  // namespace rotary::roformer::lab
