// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary permute: rewrites the weights of a model for the other pairing.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "console/output.h"
#include "console/progress_bar.h"
#include "explain/text_layout.h"
#include "rotary/pairing.h"
#include "tools/commands.h"
#include "tools/temporary_output.h"
#include "tools/weights/permute_model.h"

namespace rotary::cli {
namespace {

struct PermuteOptions {
  std::string model;
  std::string to;
  std::string from;
  std::string out;
};

constexpr const char* kPermuteFooter =
    R"(Rows of the projections to q and k, their biases and their norms are reordered; all else is
copied byte for byte: the same model, for code that pairs elements otherwise. MODEL is a folder
with config.json and .safetensors files, whose weights are not quantised. OUT must not exist; it
appears when it is complete.

Examples:
  rotary permute Llama-3.1-8B/ --to interleaved -o Llama-3.1-8B-interleaved/
  rotary permute Llama-3.1-8B-interleaved/ --from interleaved --to half -o Llama-3.1-8B/
  rotary permute DeepSeek-V3/ --to half -o DeepSeek-V3-half/)";

Pairing parse_pairing(const std::string& flag, const std::string& text) {
  if (text == "interleaved") return Pairing::kInterleaved;
  if (text == "half") return Pairing::kHalf;
  throw UsageError(fmt::format("{} must be interleaved or half, got '{}'", flag, text));
}

/// OUT without separators at its end.
std::filesystem::path output_folder(const std::string& text) {
  std::filesystem::path path = text;
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename())
    throw UsageError(fmt::format("OUT must be a new folder, got '{}'", text));
  if (std::filesystem::symlink_status(path).type() != std::filesystem::file_type::not_found) {
    throw UsageError(fmt::format("OUT must not exist, got '{}'", text));
  }
  return path;
}

std::string pairing_note(const AttentionShape& shape, Pairing to) {
  if (!shape.interleave_key.empty()) {
    return fmt::format("config.json now has {}: {}", shape.interleave_key,
                       to == Pairing::kInterleaved);
  }
  if (to == shape.pairing) {
    return fmt::format("the pairing is again that of {} everywhere: nothing has to be set",
                       shape.model_type);
  }
  const bool interleaved = to == Pairing::kInterleaved;
  return fmt::format(
      "config.json has no key for the pairing of {}: what reads OUT must be told that it is {} "
      "(flash_attn: interleaved={}; vLLM: is_neox_style={}; ggml: GGML_ROPE_TYPE_{}; rotary: "
      "Pairing::{})",
      shape.model_type, name_of(to), interleaved ? "True" : "False", interleaved ? "False" : "True",
      interleaved ? "NORMAL" : "NEOX", interleaved ? "kInterleaved" : "kHalf");
}

void permute(const PermuteOptions& options) {
  const Pairing to = parse_pairing("--to", options.to);
  std::optional<Pairing> asked_from;
  if (!options.from.empty()) asked_from = parse_pairing("--from", options.from);
  const std::filesystem::path out = output_folder(options.out);
  const PermutePlan plan = plan_permutation(options.model);
  const Pairing from = asked_from.value_or(plan.shape.pairing);
  if (from == to) {
    throw std::invalid_argument(fmt::format(
        "{}: the pairing is already {}{}", options.model, name_of(to),
        asked_from
            ? ""
            : fmt::format(" by model_type {}; --from names another", plan.shape.model_type)));
  }
  TemporaryOutput output(out);
  std::filesystem::create_directory(output.file());
  {
    console::ProgressBar progress("Permuting", static_cast<std::int64_t>(plan.num_bytes));
    permute_model(plan, from, to, output.file(), [&progress](std::uint64_t bytes) {
      progress.update(static_cast<std::int64_t>(bytes));
    });
  }
  output.commit();
  console::print_out(fmt::format("{} tensors of q and k in {} attention layers: {} -> {}\n",
                                 plan.num_tensors, plan.num_attentions, name_of(from),
                                 name_of(to)));
  for (const std::string& name : plan.files.left_out) {
    console::print_error(fmt::format("rotary: not copied: {}\n", explain::printable(name)));
  }
  console::print_error(fmt::format("rotary: {}\n", pairing_note(plan.shape, to)));
}

}  // namespace

void add_permute(CLI::App& app) {
  auto options = std::make_shared<PermuteOptions>();
  CLI::App* verb =
      app.add_subcommand("permute", "Rewrite the weights of a model for the other pairing");
  verb->footer(kPermuteFooter);
  verb->add_option("MODEL", options->model, "Folder of the model")->required()->type_name("");
  verb->add_option("--to", options->to, "Pairing to write: interleaved or half")
      ->required()
      ->type_name("WHICH");
  verb->add_option("-o,--out", options->out, "New folder for the model")
      ->required()
      ->type_name("OUT");
  verb->add_option("--from", options->from,
                   "Pairing of the weights, if not that of the model's config")
      ->type_name("WHICH");
  verb->callback([options] { permute(*options); });
}

}  // namespace rotary::cli
