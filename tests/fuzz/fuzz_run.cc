// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any text as one of the JSON files of a model or a run, by the first byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "input_file.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/model/config.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/run_config.h"
#include "rotary/error.h"

namespace {

namespace fs = std::filesystem;
namespace rf = rotary::roformer;

void require(bool condition) {
  if (!condition) std::abort();
}

/// What is written is read again as the same.
void read_model_config(std::string_view text) {
  const rf::Config config = rf::parse_config(text, "config.json");
  const std::string written = rf::to_json(config);
  const rf::Config again = rf::parse_config(written, "written");
  require(rf::to_json(again) == written);
  require(rf::label_names(again) == rf::label_names(config));
}

/// A checkpoint's folder, in memory if the system has such a place; removed at the end.
class CheckpointFolder {
 public:
  CheckpointFolder() {
    const fs::path root = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (root / "fuzz_run_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    parent_ = name;
    fs::create_directory(path());
  }
  ~CheckpointFolder() {
    for (const char* name : {kIndex, kState}) ::unlink((path() / name).c_str());
    ::rmdir(path().c_str());
    ::rmdir(parent_.c_str());
  }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  fs::path path() const { return parent_ / "step-00000007"; }
  fs::path write(const char* name, std::string_view text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
    return path() / name;
  }

  static constexpr const char* kIndex = "model.safetensors.index.json";
  static constexpr const char* kState = "trainer.json";

 private:
  fs::path parent_;
};

void read_as(std::uint8_t kind, std::string_view text) {
  static const CheckpointFolder kFolder;
  switch (kind % 5) {
    case 0:
      return read_model_config(text);
    case 1: {
      const rf::RunConfig config = rf::read_run_config(rotary::fuzz::InputFile(text).path());
      const std::string written = rf::to_json(config);
      require(rf::to_json(rf::read_run_config(rotary::fuzz::InputFile(written).path())) == written);
      return;
    }
    case 2:
      rf::read_tune_config(rotary::fuzz::InputFile(text).path());
      return;
    case 3:
      rf::read_weights(kFolder.write(CheckpointFolder::kIndex, text));
      return;
    default:
      kFolder.write(CheckpointFolder::kState, text);
      require(rf::read_train_state(kFolder.path()).step == 7);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read_as(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const rotary::IoError&) {
  }
  return 0;
}
