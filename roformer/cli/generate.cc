// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer generate: a causal model continues a text, token by token, with a cache.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/text_model.h"

namespace rotary::roformer::cli {
namespace {

struct GenerateOptions {
  TextOptions text;
  std::string prompt;
  std::int64_t tokens = 64;
  double temperature = 1.0;
  double top_p = 0.95;
  std::uint64_t seed = 0;
};

constexpr const char* kGenerateFooter =
    R"(Nucleus sampling: each token is sampled from the most probable ones that together have the
probability --top-p; with --temperature 0 it is the most probable one. The same --seed gives the
same text. It ends at [SEP], or after --tokens. Recipes that depend on the context take that of the
prompt and --tokens together, unless --context is given.

Example:
  roformer generate model/ "Once upon a time" --tokens 200 --top-p 0.9)";

/// `logits` [vocabulary].
std::int32_t draw(const at::Tensor& logits, const GenerateOptions& options,
                  at::Generator& generator) {
  if (options.temperature == 0.0) return logits.argmax().item<std::int32_t>();
  const at::Tensor p = at::softmax(logits.to(at::kDouble) / options.temperature, 0);
  const auto [sorted, ids] = at::sort(p, 0, /*descending=*/true);
  // The most probable one always stays.
  const at::Tensor before = sorted.cumsum(0) - sorted;
  const at::Tensor kept = at::where(before < options.top_p, sorted, 0.0);
  return ids[at::multinomial(kept, 1, false, generator).squeeze(0)].item<std::int32_t>();
}

/// Lines stay lines; other control characters and stray bytes must not steer the terminal.
void print_lines(std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    console::print_out(explain::printable(text.substr(0, end)) + "\n");
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void generate(const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  Encoding prompt = encode(*open_tokenizer(options.text), options.prompt,
                           {.max_length = options.text.max_length});
  // Without the final [SEP]: the text continues.
  prompt.ids.pop_back();
  prompt.types.pop_back();
  const TextModel text = open_text_model(options.text, {}, [&](Config& config) {
    // Cached keys keep their rotation: that of the whole text, where it depends on the length.
    if (config.rope_context > 0 || !layer_ropes(config).depend_on_context()) return;
    config.rope_context = static_cast<std::int64_t>(prompt.ids.size()) + options.tokens;
  });
  if (text.model->config().task != Task::kCausalLm) {
    throw UsageError(options.text.checkpoint +
                     " is not a causal LM: " + std::string(architecture_of(text.model->config())));
  }
  const Vocabulary& vocabulary = text.tokenizer->vocabulary();
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  Cache cache;
  Inputs inputs = inputs_of(prompt);
  std::vector<std::int32_t> ids(prompt.ids.begin(), prompt.ids.end());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    inputs.cache = &cache;
    const at::Tensor logits = text.model->forward(inputs).logits[0][-1];
    const std::int32_t next = draw(logits.narrow(0, 0, vocabulary.size()), options, generator);
    if (next == vocabulary.special().sep) break;
    ids.push_back(next);
    inputs = {.ids = at::full({1, 1}, next, at::kLong)};
  }
  print_lines(text.tokenizer->decode(ids));
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* verb = app.add_subcommand("generate", "Continue a text");
  verb->footer(kGenerateFooter);
  add_text_options(*verb, options->text);
  add_rope_options(*verb, options->text.rope);
  verb->add_option("PROMPT", options->prompt, "The beginning of the text")
      ->required()
      ->type_name("");
  verb->add_option("--tokens", options->tokens, "Maximum number of new tokens")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  verb->add_option("--temperature", options->temperature,
                   "Softmax temperature; 0: the most probable token")
      ->type_name("T")
      ->check(CLI::Range(0.0, 100.0));
  verb->add_option("--top-p", options->top_p, "Total probability of the tokens to sample from")
      ->type_name("P")
      ->check(CLI::Range(1e-6, 1.0));
  verb->add_option("--seed", options->seed, "Random seed")->type_name("N");
  verb->callback([options] { generate(*options); });
}

}  // namespace rotary::roformer::cli
