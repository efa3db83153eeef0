// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Labs at a setting of seconds, for their tests.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "roformer/lab/cost.h"
#include "roformer/lab/lab.h"
#include "roformer/lab/report.h"
#include "roformer/lab/results.h"
#include "roformer/lab/runner.h"
#include "roformer_testing.h"

namespace rotary::roformer::lab {

/// A text of letters, for the byte tokenizer.
inline std::string letters(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text.push_back(static_cast<char>('a' + (i * i + i / 7) % 26));
    if (i % 11 == 0) text.push_back(' ');
  }
  return text;
}

/// Writes data and a config file, and runs a lab with them.
class LabTest : public ScratchTest {
 protected:
  LabOptions options(const std::string& config, const std::string& folder = "out") const {
    std::filesystem::create_directories(path("data"));
    file("data/train.txt", letters(3000));
    file("data/held_out.txt", letters(600));
    return {.folder = path(folder),
            .data = path("data"),
            .quick = true,
            .config = file("config.json", config)};
  }

  static Results run(const LabInfo& info, const LabOptions& options, bool expect_done = true,
                     const std::function<bool()>& stop = {}) {
    const std::unique_ptr<Lab> lab = info.make(options);
    EXPECT_EQ(run_lab(info.name, *lab, options, {.stop = stop}), expect_done);
    return std::filesystem::exists(options.folder / "results.json")
               ? read_results(options.folder / "results.json")
               : Results();
  }

  /// The file without measurements of the machine.
  static std::string repeatable(Results results) {
    std::erase_if(results.rows, [](const Row& row) { return is_cost(row.metric); });
    return to_json(results);
  }

  /// A second run, and one that is interrupted again and again, give the same file.
  void expect_repeatable(const std::string& name, const std::string& config,
                         const std::vector<std::string>& variants) {
    const LabInfo& info = find_lab(name);
    LabOptions whole = options(config, "whole");
    whole.variants = variants;
    const Results once = run(info, whole);
    LabOptions parts = options(config, "parts");
    parts.variants = variants;
    int runs = 0;
    for (bool done = false; !done; ++runs) {
      ASSERT_LT(runs, 100) << "never ends";
      const std::unique_ptr<Lab> lab = info.make(parts);
      std::atomic<int> calls = 0;
      done = run_lab(name, *lab, parts, {.stop = [&] { return ++calls > 2 + 3 * runs; }});
    }
    EXPECT_GT(runs, 1);
    const Results resumed = read_results(parts.folder / "results.json");
    EXPECT_EQ(repeatable(once), repeatable(resumed));
    EXPECT_TRUE(std::filesystem::is_empty(parts.folder / "runs"));
  }
};

}  // namespace rotary::roformer::lab
