// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer look: attention weights of a text as a page.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "explorer/embed/page.h"
#include "io/pending_file.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/text_model.h"
#include "roformer/model/attention_trace.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

/// Weights of 12 layers with 12 heads of so many tokens take 50 MB of page.
constexpr std::size_t kMaxLookTokens = 256;

struct LookOptions {
  TextOptions text;
  std::string sentence;
  std::string out;
};

constexpr const char* kLookFooter =
    R"(Writes a page that shows how much each token attends to each other one, by layer and head,
with the rotation of the layer's queries and keys and without it. It needs no network and is opened
in any browser.

Example:
  roformer look roformer_chinese_base/ "今天天气很好，我去公园玩。" -o page.html)";

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t block = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      block = block << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= left ? kDigits[block >> (18 - 6 * k) & 63u] : '=';
    }
  }
  return text;
}

/// [1, heads, tokens, tokens] as the page reads it (explorer/embed/page.h).
std::string weights_text(const at::Tensor& weights) {
  const at::Tensor rounded =
      (weights[0].to(at::kDouble) * 65535.0).round().to(at::kInt).contiguous().cpu();
  std::string bytes;
  const auto* values = rounded.const_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < rounded.numel(); ++i) {
    bytes += static_cast<char>(values[i] & 255);
    bytes += static_cast<char>(values[i] >> 8);
  }
  return base64_of(bytes);
}

Json attention_json(const TextModel& text, const LookOptions& options) {
  const Encoding encoding =
      encode(*text.tokenizer, options.sentence, {.max_length = options.text.max_length});
  if (encoding.ids.size() > kMaxLookTokens) {
    throw UsageError(fmt::format("the text has {} tokens; at most {} are shown (see --max-length)",
                                 encoding.ids.size(), kMaxLookTokens));
  }
  const AttentionTrace trace;
  static_cast<void>(text.model->forward(inputs_of(encoding)));
  if (trace.layers().empty()) throw UsageError("the model has no softmax attention to look at");
  const Vocabulary& vocabulary = text.tokenizer->vocabulary();
  Json json = {{"source", std::filesystem::path(options.text.checkpoint).filename().string()},
               {"text", options.sentence},
               {"encoding", text.model->config().position_encoding},
               {"tokens", Json::array()},
               {"heads", text.model->config().num_attention_heads},
               {"layers", Json::array()}};
  for (const auto id : encoding.ids) {
    json["tokens"].push_back(vocabulary.token(static_cast<std::int32_t>(id)));
  }
  for (const AttentionTrace::Layer& layer : trace.layers()) {
    json["layers"].push_back(Json{{"rotated", weights_text(layer.rotated)},
                                  {"unrotated", weights_text(layer.unrotated)}});
  }
  return json;
}

void look(const LookOptions& options) {
  const at::NoGradGuard no_grad;
  const TextModel text = open_text_model(options.text);
  const std::string page = explorer::page_with_attention(attention_json(text, options).dump());
  internal::PendingFile pending(options.out);
  pending.append(page.data(), page.size());
  pending.commit();
  console::print_out(explain::printable(options.out) + "\n");
}

}  // namespace

void add_look(CLI::App& app) {
  auto options = std::make_shared<LookOptions>();
  CLI::App* verb = app.add_subcommand("look", "Show attention weights of a text as a page");
  verb->footer(kLookFooter);
  add_text_options(*verb, options->text);
  add_rope_options(*verb, options->text.rope);
  verb->add_option("TEXT", options->sentence, "The text")->required()->type_name("");
  verb->add_option("-o,--out", options->out, "The page to write")->required()->type_name("FILE");
  verb->callback([options] { look(*options); });
}

}  // namespace rotary::roformer::cli
