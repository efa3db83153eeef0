// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary explore: the explorer page with a model in it.
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "console/output.h"
#include "explain/rope_json.h"
#include "explain/text_layout.h"
#include "explorer/embed/page.h"
#include "io/pending_file.h"
#include "rotary/model.h"
#include "tools/commands.h"

// NOLINTNEXTLINE(readability-redundant-declaration): not in every <unistd.h>.
extern char** environ;

namespace rotary::cli {
namespace {

using explain::Json;

struct ExploreOptions {
  std::string model;
  std::string out;
  bool no_open = false;
};

constexpr const char* kExploreFooter =
    R"(The page is one file that needs no network: wavelengths, recipes and frameworks compared,
decay, maps, precision, pairing, and what to type for a longer context, computed in the browser by
this library. It is opened where there is a desktop.

Examples:
  rotary explore config.json
  rotary explore model.gguf -o page.html --no-open)";

/// The file itself, or, for a GGUF file, what `rotary inspect --json` prints.
std::string text_of(const std::string& path, const Model& model) {
  std::filesystem::path file = path;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "config.json";
  if (file.extension() == ".json") {
    std::ifstream stream(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (!text.empty()) return text;
  }
  Json json = {{"model_type", model.model_type}, {"ropes", Json::array()}};
  for (const ModelRope& rope : model.ropes) {
    json["ropes"].push_back(explain::rope_json(rope, rope.make_frequencies(), 0));
  }
  return json.dump();
}

bool has_desktop() {
#ifdef __APPLE__
  return true;
#else
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread.
    if (value != nullptr && *value != '\0') return true;
  }
  return false;
#endif
}

/// How the program that opens files is started: apart from the terminal and the pipes of this
/// process. A browser that it becomes would keep them open, and `$(rotary explore ...)` would wait.
class Detached {
 public:
  Detached() {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, STDOUT_FILENO, STDERR_FILENO);
  }
  Detached(const Detached&) = delete;
  Detached& operator=(const Detached&) = delete;
  ~Detached() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawnattr_t* attributes() const { return &attributes_; }
  const posix_spawn_file_actions_t* files() const { return &files_; }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t files_{};
};

/// Asks the desktop to open a file; what comes of it is the desktop's.
void open_in_browser(const std::string& file) {
#ifdef __APPLE__
  std::string program = "open";
#else
  std::string program = "xdg-open";
#endif
  std::string argument = file;
  const std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};
  const Detached detached;
  pid_t child = 0;
  if (posix_spawnp(&child, program.c_str(), detached.files(), detached.attributes(),
                   arguments.data(), environ) != 0) {
    console::print_error(
        fmt::format("rotary: {} was not found; open the page yourself\n", program));
  }
}

void explore(const ExploreOptions& options) {
  const Model model = Model::read(options.model);
  std::filesystem::path file = options.out;
  if (file.empty()) {
    file = std::filesystem::temp_directory_path() / fmt::format("rotary-explore-{}.html", getpid());
  }
  const std::string source = std::filesystem::path(options.model).filename().string();
  const std::string page = explorer::page_with_model(text_of(options.model, model),
                                                     source.empty() ? options.model : source);
  internal::PendingFile pending(file);
  pending.append(page.data(), page.size());
  pending.commit();
  console::print_out(explain::printable(file.string()) + "\n");
  if (!options.no_open && has_desktop()) open_in_browser(std::filesystem::absolute(file).string());
}

}  // namespace

void add_explore(CLI::App& app) {
  auto options = std::make_shared<ExploreOptions>();
  CLI::App* verb = app.add_subcommand("explore", "Write and open a page that shows a model");
  verb->footer(kExploreFooter);
  verb->add_option("MODEL", options->model, "config.json, model folder or .gguf file")
      ->required()
      ->type_name("");
  verb->add_option("-o,--out", options->out, "The page; default: a temporary file")
      ->type_name("FILE");
  verb->add_flag("--no-open", options->no_open, "Do not open it");
  verb->callback([options] { explore(*options); });
}

}  // namespace rotary::cli
