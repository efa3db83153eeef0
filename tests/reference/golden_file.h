// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The files of tests/golden.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace rotary::reference {

/// Parses a golden file.
inline nlohmann::json load_golden(const std::string& name) {
  std::ifstream file(std::string(ROTARY_TESTS_DIR) + "/golden/" + name);
  EXPECT_TRUE(file) << name;
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // Python writes Infinity, which is not JSON and which no rope key needs.
  for (std::size_t at = 0; (at = text.find("Infinity", at)) != std::string::npos;) {
    text.replace(at, 8, "null    ");
  }
  return nlohmann::json::parse(text);
}

}  // namespace rotary::reference
