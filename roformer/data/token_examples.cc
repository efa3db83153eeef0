// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/token_examples.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "roformer/data/class_index.h"
#include "roformer/data/example_lines.h"
#include "roformer/text/unicode.h"

namespace rotary::roformer {
namespace {

using internal::Json;

// ---- Tags ---------------------------------------------------------------------------------------

/// Collects texts, and finalises the class indices of their words at the end.
class TagCollector {
 public:
  TagCollector(std::string source, std::span<const std::string> labels)
      : source_(source), classes_(std::move(source), labels) {}

  void add(std::string word, const std::string& tag, std::size_t line) {
    text_.words.push_back(std::move(word));
    text_.tags.push_back(classes_.index_of(tag, line));
  }
  void end_text() {
    if (!text_.words.empty()) set_.texts.push_back(std::exchange(text_, {}));
  }

  TagSet take() {
    end_text();
    if (set_.texts.empty()) throw IoError(source_, IoError::kNoOffset, "no examples");
    std::vector<std::int64_t> indices;
    set_.labels = classes_.finalize(indices);
    for (TaggedText& text : set_.texts) {
      for (std::int64_t& tag : text.tags) tag = indices[static_cast<std::size_t>(tag)];
    }
    return std::move(set_);
  }

 private:
  std::string source_;
  ClassIndex classes_;
  TaggedText text_;
  TagSet set_;
};

std::vector<std::string> texts_of(const Json& object, const std::string& field,
                                  const std::string& source, std::size_t number) {
  const Json* list = object.find(field);
  const bool is_valid = list != nullptr && list->is_array() &&
                        std::ranges::all_of(list->elements(), &Json::is_string);
  if (!is_valid) fail_at_line(source, number, "expected a list of texts " + in_quotes(field));
  std::vector<std::string> texts;
  for (const Json& text : list->elements()) texts.push_back(text.as_string());
  return texts;
}

// ---- Questions ----------------------------------------------------------------------------------

/// The byte offset of code point `index`; npos beyond the end.
std::size_t byte_offset(std::string_view text, std::uint64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode_at(text, at).size;
  return index == 0 ? at : std::string_view::npos;
}

/// A value, the first of a list, or null.
const Json* first_of(const Json& object, const char* field) {
  const Json* value = object.find(field);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_array()) return value;
  return value->empty() ? nullptr : &value->elements().front();
}

std::vector<std::string> answers_of(const Json& object, const std::string& source,
                                    std::size_t number) {
  const Json* first = first_of(object, "answer");
  if (first == nullptr) {
    if (object.contains("answer")) return {};
    fail_at_line(source, number, "expected a text or a list of texts \"answer\"");
  }
  if (object.at("answer").is_array()) return texts_of(object, "answer", source, number);
  const std::string only = text_of(object, "answer", source, number);
  return only.empty() ? std::vector<std::string>() : std::vector{only};
}

/// The byte offset of the first answer in the context.
std::size_t answer_offset(const Json& object, const Question& question, const std::string& source,
                          std::size_t number) {
  const std::string& answer = question.answers.front();
  const Json* start = first_of(object, "answer_start");
  if (start != nullptr && !start->is_uint64()) {
    fail_at_line(source, number, "\"answer_start\" must be a whole number, got " + start->dump());
  }
  const std::size_t begin = start == nullptr ? question.context.find(answer)
                                             : byte_offset(question.context, start->as_uint64());
  const bool matches = begin != std::string::npos &&
                       std::string_view(question.context).substr(begin).starts_with(answer);
  if (!matches) {
    fail_at_line(source, number,
                 "the context does not have the answer " + in_quotes(answer) +
                     (start == nullptr ? "" : " at character " + start->dump()));
  }
  return begin;
}

}  // namespace

TagSet read_conll(const std::filesystem::path& path, std::span<const std::string> labels) {
  TagCollector collector(path.string(), labels);
  constexpr std::string_view kSpaces = " \t";
  const MappedFile file(path);
  for_each_line(file.bytes(), [&](std::string_view line, std::size_t number) {
    const std::size_t end = line.find_last_not_of(kSpaces);
    if (end == std::string_view::npos) return collector.end_text();
    line = line.substr(0, end + 1);
    const std::size_t word = std::min(line.find_first_of(kSpaces), line.size());
    if (line.substr(0, word) == "-DOCSTART-") return collector.end_text();
    if (word == line.size() || word == 0) {
      fail_at_line(path.string(), number, "expected a word and its class, got " + in_quotes(line));
    }
    collector.add(std::string(line.substr(0, word)),
                  std::string(line.substr(line.find_last_of(kSpaces) + 1)), number);
  });
  return collector.take();
}

TagSet read_tags_jsonl(const std::filesystem::path& path, std::span<const std::string> labels) {
  const std::string source = path.string();
  TagCollector collector(source, labels);
  for_each_object(path, [&](const Json& object, std::size_t number) {
    std::vector<std::string> words = texts_of(object, "tokens", source, number);
    const std::vector<std::string> tags = texts_of(object, "labels", source, number);
    if (words.size() != tags.size()) {
      fail_at_line(
          source, number,
          std::to_string(words.size()) + " tokens have " + std::to_string(tags.size()) + " labels");
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      collector.add(std::move(words[i]), tags[i], number);
    }
    collector.end_text();
  });
  return collector.take();
}

QuestionSet read_questions(const std::filesystem::path& path) {
  const std::string source = path.string();
  QuestionSet set;
  for_each_object(path, [&](const Json& object, std::size_t number) {
    Question question{.question = text_of(object, "question", source, number),
                      .context = text_of(object, "context", source, number),
                      .answers = answers_of(object, source, number)};
    if (!question.answers.empty()) question.begin = answer_offset(object, question, source, number);
    set.questions.push_back(std::move(question));
  });
  if (set.questions.empty()) throw IoError(source, IoError::kNoOffset, "no examples");
  return set;
}

ExampleRows rows_of(std::shared_ptr<const TagSet> set) {
  if (!set) return {};
  return {.count = set->texts.size(),
          .read = [set](std::size_t k, const Tokenizer& tokenizer, const EncodeOptions& options) {
            const TaggedText& text = set->texts[k];
            ExampleRow row{.encoding = encode_words(tokenizer, text.words, options)};
            row.labels.assign(row.encoding.ids.size(), kIgnoreIndex);
            for (std::size_t t = 1; t < row.labels.size(); ++t) {
              const std::uint32_t word = row.encoding.words[t];
              if (word == Encoding::kNoWord || word == row.encoding.words[t - 1]) continue;
              row.labels[t] = text.tags[word];
            }
            return row;
          }};
}

}  // namespace rotary::roformer
