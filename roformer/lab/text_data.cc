// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/text_data.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>

#include "roformer/data/document_stream.h"
#include "roformer/data/random.h"
#include "roformer/lab/settings.h"
#include "roformer/text/tokenizer.h"
#include "roformer/text/vocabulary_builder.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

namespace fs = std::filesystem;
using internal::Json;

/// A vocabulary of frequent pieces needs no more text.
constexpr std::size_t kVocabularyBytes = std::size_t{16} << 20;

/// Streams of random numbers, so that batches share none.
enum RandomStream : std::uint8_t { kWindows = 1, kMasks = 2 };

/// Tokens of documents, concatenated.
struct TokenList {
  std::vector<std::int16_t> ids{};
  /// [documents]
  std::vector<std::size_t> ends{};

  std::size_t begin_of(std::size_t document) const {
    return document == 0 ? 0 : ends[document - 1];
  }
  std::size_t size_of(std::size_t document) const { return ends[document] - begin_of(document); }
};

Vocabulary build_pieces(const fs::path& text, std::int64_t size) {
  VocabularyBuilder builder({.size = static_cast<std::int32_t>(size)});
  Counts counts;
  DocumentReader reader({.files = {text}});
  std::size_t bytes = 0;
  for (std::string document; bytes < kVocabularyBytes && reader.next(document);) {
    builder.count(document, counts);
    bytes += document.size();
  }
  builder.merge(counts);
  return builder.build();
}

std::shared_ptr<const Tokenizer> make_tokenizer_for(const Settings& corpus, const fs::path& text) {
  const std::string kind = corpus.text("tokenizer");
  if (kind == "byte") return make_tokenizer({.kind = TokenizerKind::kByte}, byte_vocabulary());
  if (kind != "wordpiece") {
    internal::reject("[lab] corpus.tokenizer must be byte or wordpiece, got ", kind);
  }
  const std::int64_t size = corpus.integer("vocab_size", 300);
  if (size > std::numeric_limits<std::int16_t>::max()) {
    internal::reject("[lab] corpus.vocab_size must be at most 32767, got ", size);
  }
  return make_tokenizer({.kind = TokenizerKind::kBert}, build_pieces(text, size));
}

TokenList read_tokens(const fs::path& text, std::shared_ptr<const Tokenizer> tokenizer,
                      std::size_t max_tokens) {
  const auto separator = static_cast<std::int16_t>(tokenizer->vocabulary().special().sep);
  const auto stream =
      open_text_stream({.files = {text}}, std::move(tokenizer),
                       {.stream = {.order = Order::kInOrder, .epochs = 1},
                        .block = 64,
                        .threads = std::max(1U, std::thread::hardware_concurrency())});
  TokenList tokens;
  for (TokenDocument document; tokens.ids.size() < max_tokens && stream->next(document);) {
    for (const std::int32_t id : document.ids) tokens.ids.push_back(static_cast<std::int16_t>(id));
    tokens.ids.push_back(separator);
    tokens.ends.push_back(tokens.ids.size());
  }
  return tokens;
}

at::Tensor to_tensor(const std::vector<std::int16_t>& ids) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(ids.size())}, at::TensorOptions(at::kShort));
  std::ranges::copy(ids, tensor.mutable_data_ptr<std::int16_t>());
  return tensor;
}

/// Moves up to `count` of the longest documents of at least `length` tokens, cut to that, to a list
/// of their own: texts in which the whole context is of one document.
std::vector<std::int16_t> take_longest(TokenList& tokens, std::size_t length, std::size_t count) {
  std::vector<std::size_t> order(tokens.ends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return tokens.size_of(i); });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](std::size_t i) { return tokens.size_of(i) < length; });
  std::ranges::sort(order);
  std::vector<std::int16_t> taken;
  TokenList rest;
  for (std::size_t i = 0; i < tokens.ends.size(); ++i) {
    const auto begin = tokens.ids.begin() + static_cast<std::ptrdiff_t>(tokens.begin_of(i));
    if (std::ranges::binary_search(order, i)) {
      taken.insert(taken.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    } else {
      rest.ids.insert(rest.ids.end(), begin,
                      begin + static_cast<std::ptrdiff_t>(tokens.size_of(i)));
      rest.ends.push_back(rest.ids.size());
    }
  }
  tokens = std::move(rest);
  return taken;
}

double bytes_per_token(const Tokenizer& tokenizer, const std::vector<std::int16_t>& ids) {
  const std::vector<std::int32_t> wide(ids.begin(), ids.end());
  return static_cast<double>(tokenizer.decode(wide).size()) / static_cast<double>(ids.size());
}

std::uint64_t stream_of(RandomStream stream, std::int64_t step) {
  return static_cast<std::uint64_t>(step) << 8 | stream;
}

/// Indices [rows * per_row] of the concatenated rows, ascending: one in each of `per_row` equal
/// parts of a row.
at::Tensor stratified(std::int64_t rows, std::int64_t length, std::int64_t per_row,
                      Random& random) {
  at::Tensor indices = at::empty({rows * per_row}, at::TensorOptions(at::kLong));
  auto* out = indices.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < per_row; ++i) {
      const std::int64_t begin = length * i / per_row;
      const auto size = static_cast<std::uint32_t>(length * (i + 1) / per_row - begin);
      *out++ = row * length + begin + random.below(size);
    }
  }
  return indices;
}

}  // namespace

fs::path find_lab_file(const std::string& name, const LabOptions& options) {
  const fs::path path = options.data / name;
  if (fs::is_regular_file(path)) return path;
  for (const char* bundled : {ROFORMER_LAB_DATA, ROFORMER_LAB_SOURCE_DATA}) {
    if (options.data.empty() && fs::is_regular_file(fs::path(bundled) / name)) {
      return fs::path(bundled) / name;
    }
  }
  const fs::path packed = path.string() + ".xz";
  std::string what = "no such file";
  if (fs::is_regular_file(packed)) {
    what += "; unpack it: xz -dk " + packed.string();
  } else if (options.data.empty()) {
    what += ": name its folder with --data";
  }
  throw IoError(path.string(), IoError::kNoOffset, what);
}

Json default_corpus(bool quick) {
  if (quick) {
    return {{"train", "shakespeare.txt"}, {"held_out", "held_out.txt"}, {"held_out_texts", 8},
            {"tokenizer", "byte"},        {"vocab_size", 261},          {"max_tokens", 1000000000}};
  }
  return {{"train", "enwiki2014_100MB.txt"}, {"held_out", ""},     {"held_out_texts", 24},
          {"tokenizer", "wordpiece"},        {"vocab_size", 8192}, {"max_tokens", 1000000000}};
}

TextData load_text(const Json& corpus, const LabOptions& options, std::int64_t text_length) {
  const Settings settings(corpus);
  const fs::path path = find_lab_file(settings.text("train"), options);
  const auto tokenizer = make_tokenizer_for(settings, path);
  const auto max_tokens = static_cast<std::size_t>(settings.integer("max_tokens", 1));
  const auto length = static_cast<std::size_t>(text_length + 1);
  const auto count = static_cast<std::size_t>(settings.integer("held_out_texts", 1));
  TokenList tokens = read_tokens(path, tokenizer, max_tokens);
  std::vector<std::int16_t> held_out;
  if (const std::string name = settings.text("held_out"); !name.empty()) {
    held_out = read_tokens(find_lab_file(name, options), tokenizer, length * count).ids;
    held_out.resize(std::min(count, held_out.size() / length) * length);
  } else {
    held_out = take_longest(tokens, length, count);
  }
  if (held_out.empty()) {
    throw IoError(path.string(), IoError::kNoOffset,
                  internal::concat("no held-out text of ", length, " tokens"));
  }
  if (tokens.ids.size() <= 2 * length) {
    throw IoError(
        path.string(), IoError::kNoOffset,
        internal::concat("must have more than ", 2 * length, " tokens, got ", tokens.ids.size()));
  }
  TextData data;
  data.bytes_per_token = bytes_per_token(*tokenizer, held_out);
  data.train = to_tensor(tokens.ids).to(options.device);
  data.held_out = to_tensor(held_out)
                      .to(at::kLong)
                      .view({-1, static_cast<std::int64_t>(length)})
                      .to(options.device);
  data.vocab_size = (static_cast<std::int64_t>(tokenizer->vocabulary().size()) + 7) / 8 * 8;
  data.tokenizer = tokenizer;
  data.mask_id = tokenizer->vocabulary().special().mask;
  return data;
}

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(host.options().device(device), /*non_blocking=*/true);
}

at::Tensor random_windows(const TextData& data, std::int64_t rows, std::int64_t length,
                          std::uint64_t seed, std::int64_t step) {
  Random random(seed, stream_of(kWindows, step));
  at::Tensor begins = at::empty({rows, 1}, at::TensorOptions(at::kLong));
  auto* out = begins.mutable_data_ptr<std::int64_t>();
  const auto range = static_cast<std::uint32_t>(data.train.size(0) - length);
  for (std::int64_t row = 0; row < rows; ++row) out[row] = random.below(range);
  const at::Tensor offsets =
      at::arange(length + 1, at::TensorOptions(at::kLong).device(data.train.device()));
  const at::Tensor indices = upload(begins, data.train.device()) + offsets;
  return data.train.index_select(0, indices.flatten()).to(at::kLong).view({rows, length + 1});
}

TrainingBatch causal_batch(const TextData& data, std::int64_t rows, std::int64_t length,
                           std::uint64_t seed, std::int64_t step) {
  return causal_rows(random_windows(data, rows, length, seed, step));
}

TrainingBatch causal_rows(const at::Tensor& windows) {
  const std::int64_t length = windows.size(1) - 1;
  const std::int64_t tokens = windows.size(0) * length;
  TrainingBatch batch;
  batch.inputs.ids = windows.narrow(1, 0, length).contiguous();
  batch.inputs.labels = windows.narrow(1, 1, length).contiguous();
  batch.inputs.causal_labels = CausalLabels::kNextToken;
  batch.inputs.logits_at = LogitsAt::kLabels;
  batch.inputs.label_indices = at::arange(tokens, windows.options());
  batch.num_labels = tokens;
  return batch;
}

MaskedTokens mask_rows(const at::Tensor& ids, const TextData& data, double rate, std::uint64_t seed,
                       std::int64_t step) {
  const std::int64_t rows = ids.size(0);
  const std::int64_t length = ids.size(1);
  const auto per_row =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(rate * static_cast<double>(length)));
  Random random(seed, stream_of(kMasks, step));
  const at::Tensor indices = stratified(rows, length, per_row, random);
  // What each labelled token becomes: -1 for itself.
  at::Tensor shown = at::full({rows * per_row}, data.mask_id, at::TensorOptions(at::kLong));
  auto* out = shown.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < rows * per_row; ++i) {
    const double kind = random.uniform();
    if (kind >= 0.9) out[i] = -1;
    if (kind >= 0.8 && kind < 0.9) {
      out[i] = random.below(static_cast<std::uint32_t>(data.vocab_size));
    }
  }
  const at::Tensor at = upload(indices, ids.device());
  const at::Tensor wanted = ids.flatten().index_select(0, at);
  const at::Tensor replaced = upload(shown, ids.device());
  MaskedTokens masked;
  masked.indices = at;
  masked.ids =
      ids.flatten().index_copy(0, at, at::where(replaced.ge(0), replaced, wanted)).view_as(ids);
  masked.labels = at::full_like(ids, kIgnored).flatten().index_copy(0, at, wanted).view_as(ids);
  return masked;
}

TrainingBatch masked_batch(const TextData& data, std::int64_t rows, std::int64_t length,
                           double rate, std::uint64_t seed, std::int64_t step) {
  const at::Tensor windows = random_windows(data, rows, length, seed, step).narrow(1, 0, length);
  const MaskedTokens masked = mask_rows(windows.contiguous(), data, rate, seed, step);
  TrainingBatch batch;
  batch.inputs.ids = masked.ids;
  batch.inputs.labels = masked.labels;
  batch.inputs.logits_at = LogitsAt::kLabels;
  batch.inputs.label_indices = masked.indices;
  batch.num_labels = masked.indices.numel();
  return batch;
}

}  // namespace rotary::roformer::lab
