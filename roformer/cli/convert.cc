// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer convert: position embeddings are replaced by RoPE.
#include "roformer/checkpoint/convert.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "console/output.h"
#include "explain/text_layout.h"
#include "roformer/checkpoint/vocabulary_files.h"
#include "roformer/cli/commands.h"

namespace rotary::roformer::cli {
namespace {

struct ConvertOptions {
  std::string source;
  std::string target;
  double shard = 5000.0;  // MB
};

constexpr const char* kConvertFooter =
    R"(SOURCE is a BERT from Hugging Face, or a RoFormer whose position_encoding is learned or
sinusoidal. Every weight is copied except the position table; the model then needs fine-tuning with
a small learning rate. A model with RoPE is copied as it is: from a pytorch_model.bin, say, whose
code is never run, to model.safetensors. TARGET is a new folder, which
transformers can load, or a .safetensors file, whose config is written beside it. vocab.txt is
copied, too.

Examples:
  roformer convert bert-base-chinese/ rope-base-chinese/
  roformer convert model/ shards/ --shard 500)";

void copy_vocabulary(const std::filesystem::path& source, const std::filesystem::path& folder) {
  const std::filesystem::path vocabulary = source / "vocab.txt";
  if (std::filesystem::exists(vocabulary)) VocabularyFiles::read(vocabulary, {}).write(folder);
}

void convert(const ConvertOptions& options) {
  if (std::filesystem::exists(options.target)) {
    throw UsageError(options.target + " exists already");
  }
  const Conversion result = convert_to_rope(options.source);
  write_checkpoint(options.target, result.config, result.tensors,
                   {.max_shard_bytes = static_cast<std::int64_t>(options.shard * 1e6),
                    .add_files = [&options](const std::filesystem::path& folder) {
                      copy_vocabulary(options.source, folder);
                    }});
  const std::size_t made =
      result.tensors.contains("encoder.embed_positions.weight") ||
              result.tensors.contains("roformer.encoder.embed_positions.weight")
          ? 1
          : 0;
  std::string text = fmt::format("{}, {}\ncopied  {} tensors, {} of them under a new name\n",
                                 options.target, architecture_of(result.config),
                                 result.tensors.size() - made, result.renamed.size());
  for (const auto& [name, reason] : result.dropped) {
    text += fmt::format("dropped {}  ({})\n", explain::printable(name), reason);
  }
  if (result.dropped.empty()) text += "dropped nothing\n";
  console::print_out(text);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* verb =
      app.add_subcommand("convert", "Replace the position embeddings of a model by RoPE");
  verb->footer(kConvertFooter);
  verb->add_option("SOURCE", options->source, "A folder or a .safetensors file")
      ->required()
      ->type_name("");
  verb->add_option("TARGET", options->target, "A new folder or .safetensors file")
      ->required()
      ->type_name("");
  verb->add_option("--shard", options->shard, "Maximum size of a file of weights")
      ->type_name("MB")
      ->check(CLI::Range(0.001, 1e6));
  verb->callback([options] { convert(*options); });
}

}  // namespace rotary::roformer::cli
