// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/text_score.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

/// Tokens of a forward pass; a row may have more.
constexpr std::int64_t kBatchTokens = 32768;

/// [rows, length + 1]: rows of the texts that begin every `stride` tokens.
at::Tensor rows_of(const at::Tensor& texts, std::int64_t length, std::int64_t stride) {
  return texts.unfold(1, length + 1, stride).reshape({-1, length + 1});
}

/// Calls score(rows) for batches of rows, and sums what it returns.
template <typename Score>
at::Tensor sum_over(const at::Tensor& rows, std::int64_t length, Score score) {
  const std::int64_t size = std::max<std::int64_t>(1, kBatchTokens / length);
  at::Tensor sum;
  for (std::int64_t first = 0; first < rows.size(0); first += size) {
    const at::Tensor part = score(first, std::min(size, rows.size(0) - first));
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

/// Sum of the loss of next tokens from `skip` on in each row, float64.
at::Tensor loss_sum(ModelImpl& model, const at::Tensor& rows, std::int64_t skip) {
  const std::int64_t length = rows.size(1) - 1;
  return sum_over(rows, length, [&](std::int64_t first, std::int64_t count) {
    const at::Tensor part = rows.narrow(0, first, count);
    Inputs in;
    in.ids = part.narrow(1, 0, length).contiguous();
    in.labels = part.narrow(1, 1, length).clone();
    if (skip > 0) in.labels->narrow(1, 0, skip).fill_(kIgnored);
    in.causal_labels = CausalLabels::kNextToken;
    in.logits_at = LogitsAt::kLabels;
    const auto labels = static_cast<double>(count * (length - skip));
    return model.forward(in).loss.to(at::kDouble) * labels;
  });
}

/// [rows, length]: labels of rows that begin every half row, each label in one of them: in the
/// middle half of a row, or at an end of the text.
at::Tensor sliding_labels(const at::Tensor& labels, std::int64_t length) {
  const std::int64_t half = length / 2;
  const std::int64_t quarter = length / 4;
  const at::Tensor rows = labels.unfold(1, length, half).clone();  // [texts, rows, length]
  const std::int64_t others = rows.size(1) - 1;
  rows.narrow(1, 1, others).narrow(2, 0, quarter).fill_(kIgnored);
  rows.narrow(1, 0, others).narrow(2, quarter + half, length - quarter - half).fill_(kIgnored);
  return rows.view({-1, length});
}

void check_length(const TextData& data, std::int64_t length) {
  const std::int64_t tokens = data.held_out.size(1) - 1;
  if (length < 2 || tokens % length != 0) {
    internal::reject("[lab] lengths must divide the longest, ", tokens, ", got ", length);
  }
}

}  // namespace

double perplexity_at(ModelImpl& model, const TextData& data, std::int64_t length, Windows windows) {
  check_length(data, length);
  const at::NoGradGuard no_grad;
  const at::Tensor& texts = data.held_out;
  const auto tokens = static_cast<double>(texts.size(0) * (texts.size(1) - 1));
  if (windows == Windows::kDisjoint || length % 2 != 0) {
    return std::exp(loss_sum(model, rows_of(texts, length, length), 0).item<double>() / tokens);
  }
  const std::int64_t half = length / 2;
  const at::Tensor heads = texts.narrow(1, 0, length + 1);
  at::Tensor sum = loss_sum(model, heads, 0);
  if (texts.size(1) > length + 1) {
    const at::Tensor rest = texts.narrow(1, half, texts.size(1) - half);
    sum = sum + loss_sum(model, rows_of(rest, length, half), half);
  }
  return std::exp(sum.item<double>() / tokens);
}

double masked_accuracy_at(ModelImpl& model, const TextData& data, std::int64_t length, double rate,
                          Windows windows) {
  check_length(data, length);
  const at::NoGradGuard no_grad;
  const std::int64_t tokens = data.held_out.size(1) - 1;
  const MaskedTokens masked =
      mask_rows(data.held_out.narrow(1, 0, tokens).contiguous(), data, rate, /*seed=*/0, 0);
  const bool sliding = windows == Windows::kSliding && length % 2 == 0;
  const at::Tensor ids = sliding ? masked.ids.unfold(1, length, length / 2).reshape({-1, length})
                                 : masked.ids.view({-1, length});
  const at::Tensor labels =
      sliding ? sliding_labels(masked.labels, length) : masked.labels.view({-1, length});
  const at::Tensor right = sum_over(ids, length, [&](std::int64_t first, std::int64_t count) {
    const at::Tensor wanted = labels.narrow(0, first, count);
    const at::Tensor logits = model.forward({.ids = ids.narrow(0, first, count)}).logits;
    return logits.argmax(-1).eq(wanted).sum();
  });
  return static_cast<double>(right.item<std::int64_t>()) /
         static_cast<double>(masked.indices.numel());
}

bool is_beyond_table(const Config& config, std::int64_t length) {
  return config.position_encoding.find("learned") != std::string::npos &&
         length > config.max_position_embeddings;
}

}  // namespace rotary::roformer::lab
