// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer embed and roformer similar: texts as vectors, and pairs of them.
#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "console/output.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/text_model.h"
#include "rotary/io.h"

namespace rotary::roformer::cli {
namespace {

struct EmbedOptions {
  TextOptions text;
  std::vector<std::string> texts;
  std::string pooling = "mean";
  std::string output;
};

struct SimilarOptions {
  TextOptions text;
  std::string first;
  std::string second;
  std::string pooling = "mean";
};

constexpr const char* kEmbedFooter =
    R"(The vector of a text is the mean over its tokens, or that of [CLS]. Prints a line of JSON for
each text, or writes the file of --output: .npy or .safetensors, [texts, hidden_size].

Example:
  roformer embed model/ "one text" "another" --output vectors.npy)";

constexpr const char* kSimilarFooter =
    R"(Prints the probability that the texts match if the model is fine-tuned for pairs
(RoFormerForPairMatching), else the cosine similarity of their vectors.

Example:
  roformer similar model/ "今天天气很好" "今天阳光明媚")";

constexpr const char* kPoolings = "mean or cls";

/// [hidden_size], float32
at::Tensor embed_one(const TextModel& text, std::string_view sentence, const TextOptions& options,
                     const std::string& pooling) {
  const Encoding encoding = encode(*text.tokenizer, sentence, {.max_length = options.max_length});
  const at::Tensor hidden = text.model->roformer().forward(inputs_of(encoding));
  return (pooling == "cls" ? hidden.select(1, 0) : mean_pool(hidden, {}))[0].to(at::kFloat);
}

void embed(const EmbedOptions& options) {
  const at::NoGradGuard no_grad;
  const TextModel text = open_text_model(options.text, Task::kEncoder);
  std::vector<at::Tensor> rows;
  for (const std::string& sentence : options.texts) {
    rows.push_back(embed_one(text, sentence, options.text, options.pooling));
    if (!options.output.empty()) continue;
    const at::Tensor row = rows.back().contiguous();
    const float* data = row.const_data_ptr<float>();
    const internal::Json json = {{"text", sentence},
                                 {"vector", std::vector<float>(data, data + row.numel())}};
    console::print_out(json.dump() + "\n");
  }
  if (options.output.empty()) return;
  const at::Tensor all = at::stack(rows).contiguous();
  ConstTensorView view;
  view.data = all.const_data_ptr();
  view.dtype = DType::kFloat32;
  view.rank = 2;
  for (std::size_t d = 0; d < 2; ++d) {
    view.shape[d] = all.size(static_cast<std::int64_t>(d));
    view.strides[d] = all.stride(static_cast<std::int64_t>(d));
  }
  write_tensor(options.output, view, "embeddings");
}

double score(const TextModel& text, const SimilarOptions& options) {
  if (text.model->config().task == Task::kPairMatching) {
    const Encoding pair = encode_pair(*text.tokenizer, options.first, options.second,
                                      {.max_length = options.text.max_length});
    const at::Tensor logits = text.model->forward(inputs_of(pair)).logits[0].to(at::kDouble);
    // The last of several classes is "match".
    const at::Tensor p = logits.size(0) == 1 ? at::sigmoid(logits) : at::softmax(logits, 0);
    return p[-1].item<double>();
  }
  const at::Tensor a = embed_one(text, options.first, options.text, options.pooling);
  const at::Tensor b = embed_one(text, options.second, options.text, options.pooling);
  return at::cosine_similarity(a.to(at::kDouble), b.to(at::kDouble), 0).item<double>();
}

void similar(const SimilarOptions& options) {
  const at::NoGradGuard no_grad;
  const TextModel text = open_text_model(options.text);
  console::print_out(fmt::format("{:.6f}\n", score(text, options)));
}

void add_pooling(CLI::App& verb, std::string& pooling) {
  verb.add_option("--pooling", pooling, std::string("How tokens become one vector: ") + kPoolings)
      ->type_name("KIND")
      ->check(CLI::IsMember({"mean", "cls"}));
}

}  // namespace

void add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* verb = app.add_subcommand("embed", "Compute vectors of texts");
  verb->footer(kEmbedFooter);
  add_text_options(*verb, options->text);
  add_rope_options(*verb, options->text.rope);
  verb->add_option("TEXT", options->texts, "One text or several")->required()->type_name("");
  add_pooling(*verb, options->pooling);
  verb->add_option("-o,--output", options->output, "Write the vectors to this file")
      ->type_name("FILE");
  verb->callback([options] { embed(*options); });
}

void add_similar(CLI::App& app) {
  auto options = std::make_shared<SimilarOptions>();
  CLI::App* verb = app.add_subcommand("similar", "Compute the similarity of two texts");
  verb->footer(kSimilarFooter);
  add_text_options(*verb, options->text);
  add_rope_options(*verb, options->text.rope);
  verb->add_option("A", options->first, "A text")->required()->type_name("");
  verb->add_option("B", options->second, "Another text")->required()->type_name("");
  add_pooling(*verb, options->pooling);
  verb->callback([options] { similar(*options); });
}

}  // namespace rotary::roformer::cli
