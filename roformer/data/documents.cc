// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/documents.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "json/json.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

bool is_blank(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
}

std::string_view without_line_end(std::string_view line) noexcept {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

DocumentReader::DocumentReader(Corpus corpus) : corpus_(std::move(corpus)) {
  if (corpus_.files.empty()) {
    throw std::invalid_argument("[DocumentReader] a corpus must have a file");
  }
  open({});
}

std::string DocumentReader::path() const {
  return corpus_.files[static_cast<std::size_t>(position_.file)].string();
}

void DocumentReader::open(const DocumentPosition& position) {
  position_ = position;
  next_ = position.offset;
  buffer_.clear();
  used_ = 0;
  file_.reset();
  if (position.file == corpus_.files.size()) return;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path(), error);
  if (std::filesystem::is_directory(status)) {
    throw IoError(path(), IoError::kNoOffset, std::generic_category().message(EISDIR));
  }
  // Others, such as pipes, cannot be read twice; without a writer, opening one would block.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw IoError(path(), IoError::kNoOffset, "is not a regular file");
  }
  file_.reset(std::fopen(path().c_str(), "rb"));
  if (!file_) throw IoError(path(), IoError::kNoOffset, std::generic_category().message(errno));
  if (position.offset == 0) return;
  const std::uintmax_t size = std::filesystem::file_size(path(), error);
  if (error || position.offset > size ||
      ::fseeko(file_.get(), static_cast<off_t>(position.offset), SEEK_SET) != 0) {
    throw IoError(path(), static_cast<std::int64_t>(position.offset),
                  "no document begins here: the file has changed since it was read");
  }
}

void DocumentReader::seek(const DocumentPosition& position) {
  if (position.file > corpus_.files.size()) {
    throw std::invalid_argument("[DocumentReader] a corpus of " +
                                std::to_string(corpus_.files.size()) + " files has no file " +
                                std::to_string(position.file));
  }
  open(position);
}

/// Reads a line with its line feed. False at the end of the file.
bool DocumentReader::read_line(std::string& line) {
  constexpr std::size_t kBufferSize = std::size_t{1} << 16;
  line.clear();
  while (true) {
    if (used_ == buffer_.size()) {
      buffer_.resize(kBufferSize);
      buffer_.resize(std::fread(buffer_.data(), 1, kBufferSize, file_.get()));
      used_ = 0;
      if (std::ferror(file_.get()) != 0) {
        throw IoError(path(), static_cast<std::int64_t>(next_), "cannot read");
      }
      if (buffer_.empty()) return !line.empty();
    }
    const std::size_t end = buffer_.find('\n', used_);
    const std::size_t count = std::min(end, buffer_.size() - 1) + 1 - used_;
    line.append(buffer_, used_, count);
    used_ += count;
    next_ += count;
    if (end != std::string::npos) return true;
    if (line.size() > corpus_.max_document_bytes) {
      throw IoError(path(), static_cast<std::int64_t>(next_ - line.size()),
                    "a line of more than " + std::to_string(corpus_.max_document_bytes) + " bytes");
    }
  }
}

/// False at the end of the file.
bool DocumentReader::read_document(std::string& document) {
  document.clear();
  if (corpus_.format == DocumentFormat::kBlankLines) {
    while (document.size() < corpus_.max_document_bytes && read_line(line_)) {
      if (!is_blank(line_)) {
        document += line_;
      } else if (!document.empty()) {
        break;
      }
    }
    return !document.empty();
  }
  const std::uint64_t begin = next_;
  if (!read_line(line_)) return false;
  if (corpus_.format == DocumentFormat::kLines || is_blank(line_)) {
    document = without_line_end(line_);
    return true;
  }
  const internal::Json row = internal::try_parse_json(line_);
  const internal::Json* text = row.find(corpus_.field);
  if (text == nullptr || !text->is_string()) {
    throw IoError(path(), static_cast<std::int64_t>(begin),
                  "expected a JSON object with the text \"" + corpus_.field + "\" in a line");
  }
  document = text->as_string();
  return true;
}

bool DocumentReader::next(std::string& document) {
  while (file_) {
    const bool found = read_document(document);
    position_.offset = next_;
    if (!found) {
      open({position_.file + 1, 0});
    } else if (!is_blank(document)) {
      return true;
    }
  }
  document.clear();
  return false;
}

}  // namespace rotary::roformer
