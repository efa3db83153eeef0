// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Saving a checkpoint when the disk fails or is full, at every operation: earlier checkpoints stay,
// the new one is complete or absent, and the next save succeeds.
#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "faults/file_faults.h"
#include "io/pending_file.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/folder.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/run_lock.h"
#include "roformer_testing.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

/// Compared by content; a failure prints the sizes.
struct Files : std::map<std::string, std::string> {
  using map::map;
  friend void PrintTo(const Files& files, std::ostream* out) {
    for (const auto& [name, bytes] : files) *out << name << " of " << bytes.size() << " bytes; ";
  }
};

Files read_folder(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Model tiny_model() {
  at::manual_seed(7);
  Config config;
  config.task = Task::kMaskedLm;
  config.vocab_size = 12;
  config.hidden_size = 8;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 8;
  config.max_position_embeddings = 8;
  return make_model(config);
}

class CheckpointNamesTest : public ScratchTest {
 protected:
  CheckpointNamesTest() : model_(tiny_model()), store_(*model_, 1) {
    moments_ = {.first = at::ones_like(store_.values()),
                .second = at::ones_like(store_.values()),
                .steps = at::zeros({1})};
  }

  void SetUp() override {
    ScratchTest::SetUp();
    file_faults_start(path("").c_str(), kNoFault, 0);  // which also spares the time of syncs
  }
  void TearDown() override {
    file_faults_stop();
    ScratchTest::TearDown();
  }

  void save(std::int64_t step, std::int64_t keep = 2, std::int64_t tokens = 100) const {
    const CheckpointWriter writer{
        .run = path("run"), .keep = keep, .add_files = [](const fs::path& folder) {
          write_text(folder / "vocab.txt", "[PAD]\n");
        }};
    writer.write(*model_, store_, moments_, {.step = step, .tokens = tokens});
  }
  fs::path step(std::int64_t number) const {
    return path("run/checkpoints/step-0000000" + std::to_string(number));
  }

  Model model_;
  ParameterStore store_;
  Moments moments_;
};

class CheckpointFaultsTest : public CheckpointNamesTest,
                             public testing::WithParamInterface<FileFault> {
 protected:
  /// Calls `check(message)` after a save with a fault at each operation, until there is none.
  template <typename Save, typename Check>
  void with_faults(const Save& save_once, const Check& check) const {
    for (long at = 1;; ++at) {
      SCOPED_TRACE(at);
      file_faults_start(path("").c_str(), GetParam(), at);
      const std::string message = thrown(save_once);
      const bool failed = file_faults_stop() > 0;
      file_faults_start(path("").c_str(), kNoFault, 0);
      if (!failed) {
        EXPECT_EQ(message, "");
        EXPECT_GT(at, 40);
        return;
      }
      EXPECT_EQ(message.find('\n'), std::string::npos);
      check(message);
      if (HasFailure()) return;
    }
  }
};

TEST_P(CheckpointFaultsTest, NewStep) {
  save(2);
  const Files old = read_folder(step(2));
  save(4);
  const Files complete = read_folder(step(4));
  EXPECT_EQ(names_in(step(4)),
            (std::vector<std::string>{"config.json", "model.safetensors", "optimizer.safetensors",
                                      "trainer.json", "vocab.txt"}));
  remove_tree(step(4));
  with_faults([&] { save(4); },
              [&](const std::string& message) {
                EXPECT_EQ(read_folder(step(2)), old);
                const std::vector<fs::path> left = list_checkpoints(path("run"));
                if (message.empty() || left.size() == 2) {
                  ASSERT_EQ(left.size(), 2u);
                  EXPECT_EQ(read_folder(step(4)), complete);
                }
                // Whatever is left, the next save succeeds and tidies up.
                save(4);
                EXPECT_EQ(read_folder(step(4)), complete);
                EXPECT_EQ(names_in(path("run/checkpoints")),
                          (std::vector<std::string>{"step-00000002", "step-00000004"}));
                remove_tree(step(4));
              });
}

TEST_P(CheckpointFaultsTest, OldStepIsRemovedAfterTheNewOneIsThere) {
  save(2, 1);
  const Files old = read_folder(step(2));
  save(4, 1);
  const Files complete = read_folder(step(4));
  remove_tree(step(4));
  save(2, 1);
  with_faults([&] { save(4, 1); },
              [&](const std::string&) {
                const std::vector<fs::path> left = list_checkpoints(path("run"));
                ASSERT_FALSE(left.empty());
                for (const fs::path& one : left) {
                  EXPECT_EQ(read_folder(one), one == step(2) ? old : complete);
                }
                remove_tree(step(4));
                save(2, 1);
                EXPECT_EQ(names_in(path("run/checkpoints")),
                          (std::vector<std::string>{"step-00000002"}));
              });
}

TEST_P(CheckpointFaultsTest, RewrittenStep) {
  save(2, 1, 100);
  const Files old = read_folder(step(2));
  save(2, 1, 200);
  const Files complete = read_folder(step(2));
  ASSERT_NE(old, complete);
  save(2, 1, 100);
  with_faults([&] { save(2, 1, 200); },
              [&](const std::string& message) {
                const Files left = read_folder(step(2));
                if (message.empty() || left != old) {
                  EXPECT_EQ(left, complete);
                }
                save(2, 1, 100);
                EXPECT_EQ(read_folder(step(2)), old);
                EXPECT_EQ(names_in(path("run/checkpoints")),
                          (std::vector<std::string>{"step-00000002"}));
              });
}

TEST_P(CheckpointFaultsTest, NewFolderOfAModel) {
  fs::create_directory(path("run"));
  const fs::path model = path("run/model");
  save_model(model, *model_);
  const Files complete = read_folder(model);
  remove_tree(model);
  with_faults([&] { save_model(model, *model_); },
              [&](const std::string& message) {
                if (message.empty() || fs::exists(model)) {
                  EXPECT_EQ(read_folder(model), complete);
                }
                remove_tree(model);
                if (GetParam() == kFullDisk) {
                  EXPECT_THAT(names_in(path("run")), IsEmpty());
                }
              });
}

INSTANTIATE_TEST_SUITE_P(, CheckpointFaultsTest, testing::Values(kError, kFullDisk),
                         [](const auto& info) {
                           return std::string(info.param == kError ? "Error" : "FullDisk");
                         });

// ---- Links and names that others have prepared --------------------------------------------------

TEST_F(CheckpointNamesTest, LinksAreNotFollowed) {
  fs::create_directories(path("run/checkpoints"));
  fs::create_directory(path("precious"));
  write_file(path("precious/file"), "kept");
  fs::create_directory_symlink(path("precious"), path("run/checkpoints/.unfinished-step-00000002"));
  fs::create_directory_symlink(path("precious"), path("run/checkpoints/.unfinished-abcdef"));
  save(2);
  EXPECT_EQ(read_folder(path("precious")), (Files{{"file", "kept"}}));
  EXPECT_EQ(names_in(path("run/checkpoints")), (std::vector<std::string>{"step-00000002"}));
}

TEST_F(CheckpointNamesTest, LeftoversAreRemovedUnlessInUse) {
  const auto make_folder = [&](const std::string& name) {
    fs::create_directories(path(name));
    write_file(path(name + "/model.safetensors"), "part");
  };
  make_folder("run/.roformer-abcdef");
  make_folder("run/checkpoints/.unfinished-abcdef");
  make_folder("run/.roformer-notes");  // has another form
  make_folder("precious");
  fs::create_directory_symlink(path("precious"), path("run/.roformer-ghijkl"));
  write_file(path("run/.rotary-12-0.tmp"), "part");
  write_file(path("run/checkpoints/.rotary-12-1.tmp"), "part");
  const TemporaryFolder used(path("run"), kNewModelPrefix);
  const internal::PendingFile pending(path("run/config.json"));
  const std::size_t before = names_in(path("run")).size();
  remove_leftovers(path("run"), 3600);  // none is as old
  EXPECT_EQ(names_in(path("run")).size(), before);
  const RunLock lock(path("run"));
  EXPECT_EQ(names_in(path("run")).size(), before - 2 + 1);  // and the file of the lock
  EXPECT_TRUE(fs::exists(used.path()));
  EXPECT_TRUE(fs::exists(path("run/.roformer-notes")));
  EXPECT_FALSE(fs::exists(path("run/.roformer-abcdef")));
  EXPECT_FALSE(fs::exists(path("run/.rotary-12-0.tmp")));
  EXPECT_THAT(names_in(path("run/checkpoints")), IsEmpty());
  EXPECT_EQ(names_in(path("precious")).size(), 1u);
}

TEST_F(CheckpointNamesTest, StrayFoldersAreNotCheckpoints) {
  save(2);
  for (const char* name : {"step-", "step-3", "step-99999999999999999999999", "step-0000000x"}) {
    fs::create_directory(path("run/checkpoints") / name);
  }
  EXPECT_EQ(list_checkpoints(path("run")), (std::vector<fs::path>{step(2)}));
}

}  // namespace
}  // namespace rotary::roformer
