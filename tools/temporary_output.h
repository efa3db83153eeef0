// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A temporary folder for an output file, removed however the program ends.
#pragma once

#include <filesystem>

#include "io/output_target.h"

namespace rotary::cli {

/// A new folder beside `target`, removed by the destructor and when a signal (SIGINT, SIGTERM,
/// SIGHUP) ends the process, so that no incomplete file is left. At most one at a time. Construct
/// it before other threads start: it blocks these signals in threads that are created later.
/// Folders that killed processes (SIGKILL) left there are removed.
class TemporaryOutput {
 public:
  /// Throws std::runtime_error if the folder cannot be created.
  explicit TemporaryOutput(const std::filesystem::path& target);
  ~TemporaryOutput();
  TemporaryOutput(const TemporaryOutput&) = delete;
  TemporaryOutput& operator=(const TemporaryOutput&) = delete;

  /// The file to write: the target's name inside the folder.
  std::filesystem::path file() const { return folder_ / target_.path.filename(); }
  /// Renames the complete file to the target, with the permissions of a file that it replaces, and
  /// syncs the folder.
  void commit();

 private:
  internal::OutputTarget target_;
  std::filesystem::path folder_;
};

}  // namespace rotary::cli
