// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/dialect.h"

#include "io/file_reader.h"
#include "json/json.h"
#include "model/config.h"
#include "model/dialect_rules.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary {
namespace {

using internal::file_of;
using internal::Json;
using internal::RopeFile;
using internal::row_word;

constexpr std::string_view kDialectRows[] = {
#include "model/dialects.inc"
};

const std::vector<Json>& rows() {
  static const std::vector<Json> kRows = [] {
    std::vector<Json> parsed;
    for (const std::string_view text : kDialectRows) {
      parsed.push_back(internal::parse_json(text, "dialects.inc"));
    }
    return parsed;
  }();
  return kRows;
}

Dialect dialect_of(const Json& row) {
  const Json* rounding = row.find("rounding");
  return {.name = row_word(&row, "name"),
          .version = row_word(&row, "version"),
          .source = row_word(&row, "source"),
          .evidence = row_word(&row, "evidence"),
          .rounding = {.angle = row_word(rounding, "angle"),
                       .table = row_word(rounding, "table"),
                       .rotation = row_word(rounding, "rotation")}};
}

/// A row is named without its version (the newest), with it, or with that of a release of it:
/// 0.32.1 is a release of 0.32.
bool is_named(const Dialect& dialect, std::string_view wanted) {
  return wanted == dialect.name || wanted == dialect.full_name() ||
         (wanted.starts_with(dialect.full_name() + ".") && wanted.back() != '.');
}

const Json& row_of(std::string_view wanted) {
  std::string known;
  for (const Json& row : rows()) {
    const Dialect dialect = dialect_of(row);
    if (is_named(dialect, wanted)) return row;
    known += (known.empty() ? "" : ", ") + dialect.full_name();
  }
  internal::reject("[read_dialect] unknown dialect ", internal::quote(wanted), "; known are ",
                   known);
}

/// model_type of the rope's own part, else of the whole.
std::string type_of(const RopeFile& file, const std::string& whole) {
  const Json* own = file.config->find("model_type");
  return own != nullptr && own->is_string() ? own->as_string() : whole;
}

}  // namespace

std::vector<Dialect> known_dialects() {
  std::vector<Dialect> result;
  for (const Json& row : rows()) result.push_back(dialect_of(row));
  return result;
}

Frequencies DialectRope::make_frequencies(std::int64_t context_in_use) const {
  Frequencies frequencies = rope.make_frequencies(context_in_use);
  frequencies.softmax_scale *= softmax_factor;
  return frequencies;
}

DialectModel dialect_from_config(std::string_view json, std::string_view dialect,
                                 const std::string& source) {
  const Json& row = row_of(dialect);
  const Json root = internal::parse_json(json, source);
  const Model model = internal::read_config(root, source, row_word(&row, "families"));
  DialectModel result{.dialect = dialect_of(row), .model_type = model.model_type};
  for (const ModelRope& rope : model.ropes) {
    const RopeFile file = file_of(root, rope.name);
    const std::string type = type_of(file, model.model_type);
    result.ropes.push_back(internal::apply_dialect(row, file, type, rope));
  }
  return result;
}

DialectModel read_dialect(const std::filesystem::path& path, std::string_view dialect) {
  static_cast<void>(row_of(dialect));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return read_dialect(path / "config.json", dialect);
  }
  const internal::FileReader file(path);
  const std::string source = path.string();
  if (file.size() >= 4 && file.read(0, 4) == "GGUF") {
    internal::reject("[read_dialect] ", source, " is a GGUF file; a dialect reads a config.json");
  }
  constexpr std::size_t kMaxMebibytes = 16;
  if (file.size() > kMaxMebibytes << 20) {
    throw IoError(source, IoError::kNoOffset,
                  internal::concat("longer than the ", kMaxMebibytes, " MiB of a config.json"));
  }
  return dialect_from_config(file.read(0, static_cast<std::size_t>(file.size())), dialect, source);
}

}  // namespace rotary
