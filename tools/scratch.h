// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A place for a file that is not finished yet, removed however the program ends.
#pragma once

#include <filesystem>

namespace rotary::cli {

/// A new folder beside `target`. It goes when this object goes and when the process is interrupted
/// (SIGINT, SIGTERM, SIGHUP), so that nothing half-done is left. One at a time; make it before
/// any other thread is started, since it changes which signals threads receive.
class Scratch {
 public:
  /// Throws std::runtime_error where no folder can be made.
  explicit Scratch(const std::filesystem::path& target);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Where to write: the target's name inside the folder.
  std::filesystem::path file() const { return folder_ / target_.filename(); }
  /// Moves the finished file over the target.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path folder_;
};

}  // namespace rotary::cli
