// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The tokeniser's files beside a model.
#pragma once

#include <filesystem>
#include <string>

namespace rotary::roformer {

/// Their contents, so that a run can save them after the files themselves were moved or changed.
struct VocabularyFiles {
  /// Empty if there is none.
  std::string vocabulary{};
  std::string dictionary{};

  /// Of files; an empty path is none. Throws IoError.
  static VocabularyFiles read(const std::filesystem::path& vocabulary,
                              const std::filesystem::path& dictionary);
  /// As vocab.txt and dict.txt, on the disk when this returns. Throws IoError.
  void write(const std::filesystem::path& folder) const;
};

}  // namespace rotary::roformer
