// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/folds.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "roformer/data/permutation.h"

namespace rotary::roformer {
namespace {

/// The documents of each item, by number.
struct Items {
  std::vector<std::vector<std::size_t>> documents{};
  std::unordered_map<std::string_view, std::size_t> numbers{};

  void add(std::initializer_list<std::string_view> texts) {
    documents.emplace_back();
    for (const std::string_view text : texts) {
      documents.back().push_back(numbers.emplace(text, numbers.size()).first->second);
    }
  }
};

constexpr std::size_t kNoFold = static_cast<std::size_t>(-1);

/// The fold of each document; kNoFold if it is never a first document.
std::vector<std::size_t> deal_out(const Items& items, std::size_t folds, std::uint64_t seed) {
  std::vector<std::size_t> firsts;
  std::vector<std::size_t> fold(items.numbers.size(), kNoFold);
  for (const auto& documents : items.documents) {
    if (fold[documents[0]] != kNoFold) continue;
    fold[documents[0]] = 0;
    firsts.push_back(documents[0]);
  }
  if (folds < 2 || folds > firsts.size()) {
    throw std::invalid_argument("[make_folds] folds must be 2 to " + std::to_string(firsts.size()) +
                                ", the number of first documents, got " + std::to_string(folds));
  }
  const Permutation order(firsts.size(), seed, 0);
  for (std::size_t i = 0; i < firsts.size(); ++i) fold[firsts[order(i)]] = i % folds;
  return fold;
}

std::vector<Fold> make_folds(const Items& items, std::size_t folds, std::uint64_t seed) {
  const std::vector<std::size_t> fold_of = deal_out(items, folds, seed);
  std::vector<Fold> out(folds);
  for (std::size_t item = 0; item < items.documents.size(); ++item) {
    const std::vector<std::size_t>& documents = items.documents[item];
    out[fold_of[documents[0]]].test.push_back(item);
    for (std::size_t fold = 0; fold < folds; ++fold) {
      const bool is_foreign = std::ranges::none_of(
          documents, [&](std::size_t document) { return fold_of[document] == fold; });
      if (is_foreign) out[fold].train.push_back(item);
    }
  }
  return out;
}

template <typename T>
std::vector<T> pick(std::span<const T> all, std::span<const std::size_t> items) {
  std::vector<T> out;
  out.reserve(items.size());
  for (const std::size_t item : items) out.push_back(all[item]);
  return out;
}

}  // namespace

std::vector<Fold> make_folds(std::span<const Triple> triples, std::size_t folds,
                             std::uint64_t seed) {
  Items items;
  for (const Triple& triple : triples) items.add({triple.a, triple.b, triple.c});
  return make_folds(items, folds, seed);
}

std::vector<Fold> make_folds(const ExampleSet& set, std::size_t folds, std::uint64_t seed) {
  Items items;
  for (const Example& example : set.examples) {
    if (set.pairs) {
      items.add({example.first, example.second});
    } else {
      items.add({example.first});
    }
  }
  return make_folds(items, folds, seed);
}

std::vector<Fold> make_folds(const TagSet& set, std::size_t folds, std::uint64_t seed) {
  std::vector<std::string> texts;
  for (const TaggedText& text : set.texts) {
    texts.emplace_back();
    for (const std::string& word : text.words) texts.back().append(word).append("\n");
  }
  Items items;
  for (const std::string& text : texts) items.add({text});
  return make_folds(items, folds, seed);
}

std::vector<Fold> make_folds(const QuestionSet& set, std::size_t folds, std::uint64_t seed) {
  Items items;
  for (const Question& question : set.questions) items.add({question.context});
  return make_folds(items, folds, seed);
}

std::vector<Triple> select(std::span<const Triple> triples, std::span<const std::size_t> items) {
  return pick(triples, items);
}

ExampleSet select(const ExampleSet& set, std::span<const std::size_t> items) {
  return {
      .examples = pick(std::span(set.examples), items), .labels = set.labels, .pairs = set.pairs};
}

TagSet select(const TagSet& set, std::span<const std::size_t> items) {
  return {.texts = pick(std::span(set.texts), items), .labels = set.labels};
}

QuestionSet select(const QuestionSet& set, std::span<const std::size_t> items) {
  return {.questions = pick(std::span(set.questions), items)};
}

}  // namespace rotary::roformer
