// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Documents out of text files, one after the other. Never more than one is in memory.
///
///   namespace rf = rotary::roformer;
///   rf::DocumentReader reader({.files = {"posts.txt"}, .format = rf::DocumentFormat::kLines});
///   for (std::string document; reader.next(document);) std::puts(document.c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace rotary::roformer {

///   kBlankLines   lines up to one that is empty (or holds spaces alone), with their line feeds
///   kLines        each line
///   kJsonl        each line is a JSON object; the text is one field of it
/// Documents without a character but white space are left out.
enum class DocumentFormat : std::uint8_t { kBlankLines, kLines, kJsonl };

struct Corpus {
  std::vector<std::filesystem::path> files{};
  DocumentFormat format = DocumentFormat::kBlankLines;
  /// Of kJsonl.
  std::string field = "text";
  /// A document of kBlankLines beyond this goes on as another one at the next line; a single line
  /// beyond it is an IoError.
  std::size_t max_document_bytes = std::size_t{64} << 20;
};

/// Where a document begins.
struct DocumentPosition {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const DocumentPosition&, const DocumentPosition&) = default;
};

class DocumentReader {
 public:
  /// Throws std::invalid_argument without files, IoError if the first cannot be read.
  explicit DocumentReader(Corpus corpus);

  /// False after the last document of the last file. Throws IoError with path and byte.
  bool next(std::string& document);
  /// Of what next() would give.
  const DocumentPosition& position() const noexcept { return position_; }
  /// To a position that position() gave. Throws IoError if there is no such place.
  void seek(const DocumentPosition& position);

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void open(const DocumentPosition& position);
  bool read_line(std::string& line);
  bool read_document(std::string& document);
  std::string path() const;

  Corpus corpus_;
  DocumentPosition position_;
  std::unique_ptr<std::FILE, Close> file_;
  /// What was read ahead: buffer_[used_] is the byte at offset next_ of the file.
  std::string buffer_;
  std::size_t used_ = 0;
  std::uint64_t next_ = 0;
  std::string line_;
};

}  // namespace rotary::roformer
