// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/needle.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "roformer/data/random.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

/// Streams of random numbers that no batch of text uses.
constexpr std::uint64_t kPlantStream = 0x100;
constexpr std::uint64_t kTestStream = 0x101;
/// Tokens of a forward pass in the test.
constexpr std::int64_t kTestTokens = 65536;

/// Tokens to write into rows.
class Planting {
 public:
  Planting(std::int64_t vocab_size, std::int64_t row_tokens)
      : vocab_size_(vocab_size), row_tokens_(row_tokens) {}

  void plant_pair(std::int64_t row, std::int64_t at, std::int64_t key, std::int64_t value) {
    push(row, at, vocab_size_ + key);
    push(row, at + 1, vocab_size_ + kNumKeys + value);
  }

  /// Writes into rows, [rows, row_tokens], contiguous.
  void write_to(at::Tensor& rows) const {
    std::vector<std::int64_t> indices;
    std::vector<std::int64_t> tokens;
    for (const auto& [index, token] : tokens_) {
      indices.push_back(index);
      tokens.push_back(token);
    }
    const auto to_device = [&rows](const std::vector<std::int64_t>& list) {
      return upload(at::tensor(list, at::TensorOptions(at::kLong)), rows.device());
    };
    rows.view({-1}).index_copy_(0, to_device(indices), to_device(tokens));
  }

 private:
  void push(std::int64_t row, std::int64_t at, std::int64_t token) {
    tokens_[row * row_tokens_ + at] = token;
  }

  std::int64_t vocab_size_;
  std::int64_t row_tokens_;
  /// By index into the concatenated rows; of several tokens in one place, the last counts.
  std::map<std::int64_t, std::int64_t> tokens_;
};

template <typename T>
void shuffle(std::vector<T>& list, Random& random) {
  for (std::size_t i = list.size(); i > 1; --i) {
    std::swap(list[i - 1], list[random.below(static_cast<std::uint32_t>(i))]);
  }
}

/// 0, 1, ... count - 1 in random order.
std::vector<std::int64_t> shuffled(std::int64_t count, Random& random) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), std::int64_t{0});
  shuffle(list, random);
  return list;
}

/// The place of a pair within part `i` of `parts` equal ones of a row.
std::int64_t place_in(std::int64_t i, std::int64_t parts, std::int64_t length, Random& random) {
  const std::int64_t begin = length * i / parts;
  const std::int64_t size = length * (i + 1) / parts - begin;
  return begin + random.below(static_cast<std::uint32_t>(size - 1));
}

std::vector<std::int64_t> draw_values(std::int64_t count, Random& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t& value : values) value = random.below(static_cast<std::uint32_t>(kNumValues));
  return values;
}

/// Each pair at two places of a row.
void plant_twice(Planting& planting, std::int64_t row, const NeedleOptions& options,
                 Random& random) {
  const std::int64_t places = 2 * options.pairs;
  const std::vector<std::int64_t> keys = shuffled(kNumKeys, random);
  const std::vector<std::int64_t> values = draw_values(options.pairs, random);
  const std::vector<std::int64_t> parts = shuffled(places, random);
  for (std::int64_t place = 0; place < places; ++place) {
    const auto pair = static_cast<std::size_t>(place / 2);
    planting.plant_pair(
        row, place_in(parts[static_cast<std::size_t>(place)], places, options.length, random),
        keys[pair], values[pair]);
  }
}

/// Pairs from the beginning to the end of a row, each one of `pairs`.
void fill(Planting& planting, std::int64_t row, const NeedleOptions& options, Random& random) {
  const std::vector<std::int64_t> keys = shuffled(kNumKeys, random);
  const std::vector<std::int64_t> values = draw_values(options.pairs, random);
  const auto pairs = static_cast<std::uint32_t>(options.pairs);
  const auto gaps = 1 + random.below(static_cast<std::uint32_t>(kMaxGap + 1));
  for (std::int64_t at = 0; at + 1 <= options.length; at += 2 + random.below(gaps)) {
    const std::size_t pair = random.below(pairs);
    planting.plant_pair(row, at, keys[pair], values[pair]);
  }
}

/// [rows, length + 1]: parts of the held-out texts.
at::Tensor test_rows(const TextData& data, std::int64_t rows, std::int64_t length, Random& random) {
  std::vector<at::Tensor> parts;
  for (std::int64_t row = 0; row < rows; ++row) {
    const at::Tensor text = data.held_out[row % data.held_out.size(0)];
    const std::int64_t room = text.size(0) - length;
    parts.push_back(text.narrow(0, random.below(static_cast<std::uint32_t>(room)), length + 1));
  }
  return at::stack(parts);
}

/// Number of right answers of rows [rows, length + 1], whose last token is the answer.
at::Tensor count_right(ModelImpl& model, const at::Tensor& rows) {
  const std::int64_t length = rows.size(1) - 1;
  Inputs in;
  in.ids = rows.narrow(1, 0, length).contiguous();
  in.labels = at::full_like(in.ids, kIgnored);
  in.labels->select(1, length - 1).copy_(rows.select(1, length));
  in.causal_labels = CausalLabels::kNextToken;
  in.logits_at = LogitsAt::kLabels;
  in.label_indices = at::arange(length - 1, rows.size(0) * length, length, rows.options());
  return model.forward(in).logits.argmax(-1).eq(rows.select(1, length)).sum();
}

}  // namespace

TrainingBatch needle_batch(const TextData& data, const NeedleOptions& options, std::int64_t step) {
  const std::int64_t places = 2 * options.pairs;
  if (options.pairs < 1 || options.pairs > kNumKeys || options.length < 2 * places) {
    internal::reject("[lab] pairs must be from 1 to ", kNumKeys, ", with rows of at least ",
                     2 * places, " tokens, got ", options.pairs, " for ", options.length);
  }
  at::Tensor windows = random_windows(data, options.rows, options.length, options.seed, step);
  const auto planted = static_cast<std::int64_t>(options.share * static_cast<double>(options.rows));
  Random random(options.seed, static_cast<std::uint64_t>(step) << 9 | kPlantStream);
  Planting planting(data.vocab_size, options.length + 1);
  for (std::int64_t row = 0; row < planted; ++row) {
    if (row % 2 == 0) {
      plant_twice(planting, row, options, random);
    } else {
      fill(planting, row, options, random);
    }
  }
  if (planted > 0) planting.write_to(windows);
  return causal_rows(windows);
}

double retrieval_at(ModelImpl& model, const TextData& data, std::int64_t length,
                    std::int64_t distance, std::int64_t rows) {
  if (distance < 2 || distance > length - 1) {
    internal::reject("[lab] a distance must be from 2 to ", length - 1, ", got ", distance);
  }
  const at::NoGradGuard no_grad;
  Random random(/*seed=*/0,
                static_cast<std::uint64_t>(length * 131072 + distance) << 9 | kTestStream);
  at::Tensor tests = test_rows(data, rows, length, random);
  Planting planting(data.vocab_size, length + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<std::int64_t> keys = shuffled(kNumKeys, random);
    const std::vector<std::int64_t> values = shuffled(kNumValues, random);
    const std::int64_t asked = length - 1;
    for (std::int64_t other = 1; other <= kDistractors && asked >= 16; ++other) {
      const auto i = static_cast<std::size_t>(other);
      planting.plant_pair(row, place_in(other - 1, kDistractors, asked - 2, random), keys[i],
                          values[i]);
    }
    // Last: what stood there before is overwritten.
    planting.plant_pair(row, asked - distance, keys[0], values[0]);
    planting.plant_pair(row, asked, keys[0], values[0]);
  }
  planting.write_to(tests);
  const std::int64_t batch = std::max<std::int64_t>(1, kTestTokens / length);
  at::Tensor right = at::zeros({}, tests.options());
  for (std::int64_t first = 0; first < rows; first += batch) {
    right = right + count_right(model, tests.narrow(0, first, std::min(batch, rows - first)));
  }
  return static_cast<double>(right.item<std::int64_t>()) / static_cast<double>(rows);
}

}  // namespace rotary::roformer::lab
