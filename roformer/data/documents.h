// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Reads documents from text files, one at a time.
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

///   kBlankLines   lines up to a blank line, with their line feeds
///   kLines        each line
///   kJsonl        each line is a JSON object; one field is the text
/// Documents of white space only are skipped.
enum class DocumentFormat : std::uint8_t { kBlankLines, kLines, kJsonl };

struct Corpus {
  std::vector<std::filesystem::path> files{};
  DocumentFormat format = DocumentFormat::kBlankLines;
  /// For kJsonl.
  std::string field = "text";
  /// A longer document of kBlankLines is split at the next line; a longer line is an IoError.
  std::size_t max_document_bytes = std::size_t{64} << 20;
};

/// The beginning of a document: file index and byte offset.
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
  /// The position of the next document.
  const DocumentPosition& position() const noexcept { return position_; }
  /// Continues at a position of position(). Throws IoError if the file has no such offset.
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
  /// Read-ahead: buffer_[used_] is the byte at offset next_ of the file.
  std::string buffer_;
  std::size_t used_ = 0;
  std::uint64_t next_ = 0;
  std::string line_;
};

}  // namespace rotary::roformer
