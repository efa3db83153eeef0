// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer fill-mask: predictions of a masked LM for [MASK].
#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/text_model.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

struct FillMaskOptions {
  TextOptions text;
  std::vector<std::string> texts;
  std::int64_t top = 5;
  bool json = false;
};

constexpr const char* kFillMaskFooter =
    R"(Prints the most probable tokens for each [MASK] of a text, with their probability.

Example:
  roformer fill-mask roformer_chinese_base/ "今天[MASK]很好，我[MASK]去公园玩。")";

struct Guess {
  std::string token;
  double probability = 0.0;
};

/// A list for each mask.
std::vector<std::vector<Guess>> guess(const TextModel& text, const std::string& sentence,
                                      const FillMaskOptions& options) {
  const Vocabulary& vocabulary = text.tokenizer->vocabulary();
  const Encoding encoding =
      encode(*text.tokenizer, sentence, {.max_length = options.text.max_length});
  const at::Tensor logits = text.model->forward(inputs_of(encoding)).logits[0];
  std::vector<std::vector<Guess>> masks;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (encoding.ids[i] != vocabulary.special().mask) continue;
    const at::Tensor p = at::softmax(
        logits[static_cast<std::int64_t>(i)].narrow(0, 0, vocabulary.size()).to(at::kDouble), 0);
    const auto [values, ids] = at::topk(p, std::min<std::int64_t>(options.top, vocabulary.size()));
    masks.emplace_back();
    for (std::int64_t n = 0; n < ids.size(0); ++n) {
      masks.back().push_back(
          {vocabulary.token(ids[n].item<std::int32_t>()), values[n].item<double>()});
    }
  }
  if (masks.empty()) throw UsageError("there is no [MASK] in the text");
  return masks;
}

std::string to_text(const std::string& sentence, const std::vector<std::vector<Guess>>& masks) {
  std::string text = explain::printable(sentence) + "\n";
  for (const auto& mask : masks) {
    text += " ";
    for (const Guess& one : mask) {
      text += fmt::format(" {} {:.3f} ", explain::printable(one.token), one.probability);
    }
    text.back() = '\n';
  }
  return text;
}

std::string to_json(const std::string& sentence, const std::vector<std::vector<Guess>>& masks) {
  Json json = {{"text", sentence}, {"masks", Json::array()}};
  for (const auto& mask : masks) {
    Json list = Json::array();
    for (const Guess& one : mask) {
      list.push_back({{"token", one.token}, {"probability", one.probability}});
    }
    json["masks"].push_back(list);
  }
  return json.dump() + "\n";
}

void fill_mask(const FillMaskOptions& options) {
  const at::NoGradGuard no_grad;
  const TextModel text = open_text_model(options.text);
  if (text.model->config().task != Task::kMaskedLm) {
    throw UsageError(options.text.checkpoint +
                     " is not a masked LM: " + std::string(architecture_of(text.model->config())));
  }
  for (const std::string& sentence : options.texts) {
    const auto masks = guess(text, sentence, options);
    console::print_out(options.json ? to_json(sentence, masks) : to_text(sentence, masks));
  }
}

}  // namespace

void add_fill_mask(CLI::App& app) {
  auto options = std::make_shared<FillMaskOptions>();
  CLI::App* verb = app.add_subcommand("fill-mask", "Predict the tokens behind [MASK]");
  verb->footer(kFillMaskFooter);
  add_text_options(*verb, options->text);
  add_rope_options(*verb, options->text.rope);
  verb->add_option("TEXT", options->texts, "One text or several")->required()->type_name("");
  verb->add_option("--top", options->top, "Number of tokens for each [MASK]")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  verb->add_flag("--json", options->json, "Print a line of JSON for each text");
  verb->callback([options] { fill_mask(*options); });
}

}  // namespace rotary::roformer::cli
