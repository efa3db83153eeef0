// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// .safetensors: extracts tensors, makes the header of a file with one tensor.
#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "io/checks.h"
#include "json/json.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary {
namespace internal {
namespace {

struct SafetensorsType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<SafetensorsType, 6> kSafetensorsTypes{{{"F16", DType::kFloat16},
                                                            {"BF16", DType::kBFloat16},
                                                            {"F32", DType::kFloat32},
                                                            {"F64", DType::kFloat64},
                                                            {"I32", DType::kInt32},
                                                            {"I64", DType::kInt64}}};

/// The first names, for an error message.
std::string list_names(const std::vector<SafetensorsEntry>& entries) {
  constexpr std::size_t kMaxNames = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMaxNames, entries.size()); ++i) {
    names += (i == 0 ? "" : ", ") + quote(entries[i].name);
  }
  return names + (entries.size() > kMaxNames ? ", ..." : "");
}

}  // namespace

DType dtype_of(const SafetensorsEntry& entry, const std::string& source) {
  for (const SafetensorsType& known : kSafetensorsTypes) {
    if (known.name == entry.dtype) return known.dtype;
  }
  fail_at(source, entry.header_offset,
          "tensor " + quote(entry.name) + " has dtype " + quote(entry.dtype) +
              ", which is not supported; F16, BF16, F32, F64, I32 and I64 are");
}

const SafetensorsEntry& select_entry(const std::vector<SafetensorsEntry>& entries,
                                     std::string_view name, const std::string& source) {
  if (entries.empty()) throw IoError(source, IoError::kNoOffset, "the file holds no tensor");
  if (name.empty() && entries.size() == 1) return entries.front();
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const SafetensorsEntry& e) { return e.name == name; });
  if (found != entries.end()) return *found;
  const std::string count = std::to_string(entries.size());
  throw IoError(source, IoError::kNoOffset,
                (name.empty() ? "the file holds " + count + " tensors; name one of "
                              : "no tensor " + quote(name) + " in the file; it holds ") +
                    list_names(entries));
}

Tensor extract_tensor(std::string_view bytes, const std::string& source,
                      const SafetensorsEntry& entry) {
  Tensor tensor{.name = entry.name,
                .dtype = dtype_of(entry, source),
                .shape = entry.shape,
                .bytes = std::vector<std::byte>(entry.end - entry.begin)};
  if (tensor.bytes.empty()) return tensor;
  std::memcpy(tensor.bytes.data(), bytes.data() + entry.begin, tensor.bytes.size());
  if constexpr (std::endian::native != std::endian::little) {
    swap_bytes(tensor.bytes, size_of(tensor.dtype));
  }
  return tensor;
}

std::string make_safetensors_header(std::string_view name, DType dtype,
                                    std::span<const std::int64_t> shape) {
  std::string_view type;
  for (const SafetensorsType& known : kSafetensorsTypes) {
    if (known.dtype == dtype) type = known.name;
  }
  std::int64_t size = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) size *= extent;
  if (name == "__metadata__") reject("[write_tensor] the name __metadata__ is reserved");
  Json header;
  header[name] = {{"dtype", type},
                  {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                  {"data_offsets", std::vector<std::int64_t>{0, size}}};
  const std::optional<std::string> dumped = header.dump_strict();
  if (!dumped) {
    reject("[write_tensor] the name of the tensor must be UTF-8, got ", quote(name));
  }
  std::string text = *dumped;
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

}  // namespace internal

std::vector<Tensor> parse_safetensors(std::string_view bytes, const std::string& source) {
  std::vector<Tensor> tensors;
  for (const auto& entry : internal::parse_safetensors_header(bytes, source)) {
    tensors.push_back(internal::extract_tensor(bytes, source, entry));
  }
  return tensors;
}

}  // namespace rotary
