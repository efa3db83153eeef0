// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Texts for the labs that train language models: tokens on the device, from which random windows
/// are cut, and held-out texts.
///
/// The setting `corpus`:
///   {"train": "enwiki2014_100MB.txt",   a text in --data, documents separated by blank lines
///    "held_out": "",                    likewise; "": the longest documents of `train`, which are
///                                       then not trained on
///    "held_out_texts": 24,              at most; each has the tokens of the longest judged length
///    "tokenizer": "wordpiece",          or "byte"
///    "vocab_size": 8192,                of a WordPiece vocabulary, made from the corpus
///    "max_tokens": 1000000000}          of `train`
///
/// Documents are joined by [SEP]. Windows begin anywhere, so that a row may hold parts of several.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "json/json.h"
#include "roformer/lab/lab.h"
#include "roformer/lab/training.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer::lab {

struct TextData {
  /// [tokens], int16.
  at::Tensor train{};
  /// [texts, tokens + 1], int64.
  at::Tensor held_out{};
  /// Of the tokenizer, rounded up to a multiple of 8.
  std::int64_t vocab_size = 0;
  std::int64_t mask_id = 0;
  std::shared_ptr<const Tokenizer> tokenizer{};
  /// Of the held-out texts: for bits per byte.
  double bytes_per_token = 1.0;
};

/// A file of --data or, without that, of the bundled texts. Throws IoError if it is not there.
std::filesystem::path find_lab_file(const std::string& name, const LabOptions& options);
/// The bundled Shakespeare, as bytes, or the Wikipedia text of --data.
internal::Json default_corpus(bool quick);
/// `text_length`: of the held-out texts. Throws IoError
/// for a file that cannot be read, or with too few tokens; with the command that unpacks it if
/// there is only an .xz.
TextData load_text(const internal::Json& corpus, const LabOptions& options,
                   std::int64_t text_length);

/// A tensor of the host on the device. Does not wait for what a GPU has yet to do, as a copy from
/// pageable memory does.
at::Tensor upload(const at::Tensor& host, at::Device device);

/// Random rows of `length` tokens for a causal LM (labels: the next token), of a seed and step.
TrainingBatch causal_batch(const TextData& data, std::int64_t rows, std::int64_t length,
                           std::uint64_t seed, std::int64_t step);
/// The same for given rows, [rows, length + 1].
TrainingBatch causal_rows(const at::Tensor& windows);

/// Random rows for a masked LM: a share of the tokens is labelled, 80 % of them as [MASK], 10 % as
/// a random token.
TrainingBatch masked_batch(const TextData& data, std::int64_t rows, std::int64_t length,
                           double rate, std::uint64_t seed, std::int64_t step);

struct MaskedTokens {
  /// [rows, length]; labels are kIgnored elsewhere.
  at::Tensor ids{};
  at::Tensor labels{};
  /// Of the labels in the concatenated rows, ascending.
  at::Tensor indices{};
};
/// Masks rows of tokens as masked_batch() does: the same tokens for the same seed and step.
MaskedTokens mask_rows(const at::Tensor& ids, const TextData& data, double rate, std::uint64_t seed,
                       std::int64_t step);

/// [rows, length + 1], int64: windows of the training tokens.
at::Tensor random_windows(const TextData& data, std::int64_t rows, std::int64_t length,
                          std::uint64_t seed, std::int64_t step);

}  // namespace rotary::roformer::lab
