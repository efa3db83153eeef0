// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/checkpoint/tensor_files.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "io/pending_file.h"
#include "io/safetensors.h"
#include "json/json.h"
#include "rotary/error.h"
#include "rotary/io.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTypes{
    {{"F32", at::kFloat},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"F64", at::kDouble},
     {"I64", at::kLong},
     {"I32", at::kInt},
     {"I16", at::kShort},
     {"I8", at::kChar},
     {"U8", at::kByte},
     {"BOOL", at::kBool}}};

at::ScalarType type_of(const internal::SafetensorsEntry& entry, const std::string& source) {
  if (const auto type = scalar_type_of(entry.dtype)) return *type;
  throw IoError(source, static_cast<std::int64_t>(entry.header_offset),
                "tensor " + internal::quote(entry.name) + " has dtype " +
                    internal::quote(entry.dtype) + ", which is not supported");
}

std::string_view name_of(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  TORCH_CHECK_VALUE(false, "[write_tensors] .safetensors has no ", type);
}

at::Tensor view_of(const std::shared_ptr<const MappedFile>& file, const std::string& source,
                   const internal::SafetensorsEntry& entry) {
  const at::ScalarType type = type_of(entry, source);
  const char* data = file->bytes().data() + entry.begin;
  if (entry.begin == entry.end) return at::empty(entry.shape, type);
  if (reinterpret_cast<std::uintptr_t>(data) % at::elementSize(type) != 0) {
    at::Tensor copy = at::empty(entry.shape, type);
    std::memcpy(copy.data_ptr(), data, entry.end - entry.begin);
    return copy;
  }
  return at::from_blob(const_cast<char*>(data), entry.shape, [file](void*) {}, type);
}

std::string header_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  internal::Json::Object header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = begin + static_cast<std::int64_t>(tensor.nbytes());
    header.push_back({name,
                      {{"dtype", name_of(tensor.scalar_type())},
                       {"shape", tensor.sizes().vec()},
                       {"data_offsets", std::vector{begin, end}}}});
    begin = end;
  }
  std::string text = internal::Json::object(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

}  // namespace

std::optional<at::ScalarType> scalar_type_of(std::string_view dtype) noexcept {
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  return std::nullopt;
}

TensorMap read_tensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string source = path.string();
  TensorMap tensors;
  for (const auto& entry : internal::parse_safetensors_header(file->bytes(), source)) {
    tensors.emplace(entry.name, view_of(file, source, entry));
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& path, const TensorMap& tensors) {
  std::vector<std::pair<std::string, at::Tensor>> ready;
  for (const auto& [name, tensor] : tensors) {
    ready.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
  }
  // Widest elements first, so that all are aligned.
  std::stable_sort(ready.begin(), ready.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  internal::PendingFile file(path);
  const std::string header = header_of(ready);
  file.append(header.data(), header.size());
  for (const auto& [name, tensor] : ready) file.append(tensor.const_data_ptr(), tensor.nbytes());
  file.commit_durably();
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  internal::PendingFile file(path);
  file.append(text.data(), text.size());
  file.commit_durably();
}

void fail_file(const std::filesystem::path& path, const std::string& message) {
  throw IoError(path.string(), IoError::kNoOffset, message);
}

std::int64_t bytes_of(const TensorMap& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace rotary::roformer
