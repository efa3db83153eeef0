// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of roformer/text and roformer/data.
#pragma once

#include <ftw.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "roformer/text/segmenter.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(ROTARY_TESTS_DIR) / "roformer" / "golden" / name;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The real vocabulary with a part of the real dictionary; read once per program.
inline const Tokenizer& roformer_tokenizer() {
  static const std::unique_ptr<const Tokenizer> kOnce =
      load_tokenizer({.vocabulary = golden("vocab.txt"), .dictionary = golden("dict.txt")});
  return *kOnce;
}

/// Removes a folder recursively; std::filesystem::remove_all() is not safe with every LibTorch
/// (roformer/checkpoint/folder.h).
inline void remove_tree(const std::filesystem::path& folder) {
  const auto remove = [](const char* path, const struct stat*, int, struct FTW*) {
    return std::remove(path);
  };
  ::nftw(folder.c_str(), remove, /*descriptors=*/8, FTW_DEPTH | FTW_PHYS);
}

/// A test with a temporary folder.
class ScratchTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("roformer-") + info->test_suite_name() + "-" + info->name());
    remove_tree(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { remove_tree(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  std::filesystem::path file(const std::string& name, const std::string& bytes) const {
    write_file(path(name), bytes);
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

/// The message of the exception that a call throws; empty if it throws none.
template <typename Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace rotary::roformer
