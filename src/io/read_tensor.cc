// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::Tensor, and reading: the ending of a file's name chooses the format.
#include <algorithm>
#include <optional>

#include "io/checks.h"
#include "io/file_format.h"
#include "io/safetensors.h"
#include "rotary/io.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary {
namespace {

using internal::SafetensorsEntry;

template <typename View, typename Bytes>
View make_view(Bytes* data, const Tensor& tensor) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  if (shape.size() > kMaxRank) {
    internal::reject("[Tensor::view] a view has at most ", kMaxRank, " dimensions, got ",
                     shape.size());
  }
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; });
  const auto bits =
      negative ? std::nullopt : internal::count_bits(shape, 8 * size_of(tensor.dtype));
  if (!bits || *bits / 8 != tensor.bytes.size()) {
    internal::reject("[Tensor::view] bytes must be as many as the shape ",
                     internal::shape_text(shape), " of ", name_of(tensor.dtype), " takes, got ",
                     tensor.bytes.size());
  }
  View view;
  view.data = data;
  view.dtype = tensor.dtype;
  view.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.strides[d] = stride;
    stride *= shape[d];
  }
  return view;
}

/// The first few names, for an error.
std::string list_names(const std::vector<SafetensorsEntry>& entries) {
  constexpr std::size_t kMost = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(kMost, entries.size()); ++i) {
    names += (i == 0 ? "" : ", ") + internal::quote(entries[i].name);
  }
  return names + (entries.size() > kMost ? ", ..." : "");
}

const SafetensorsEntry& pick(const std::vector<SafetensorsEntry>& entries, std::string_view name,
                             const std::string& source) {
  if (entries.empty()) throw IoError(source, IoError::kNoOffset, "the file holds no tensor");
  if (name.empty() && entries.size() == 1) return entries.front();
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const SafetensorsEntry& e) { return e.name == name; });
  if (found != entries.end()) return *found;
  const std::string count = std::to_string(entries.size());
  throw IoError(source, IoError::kNoOffset,
                (name.empty() ? "the file holds " + count + " tensors; name one of "
                              : "no tensor " + internal::quote(name) + " in the file; it holds ") +
                    list_names(entries));
}

}  // namespace

std::int64_t Tensor::num_elements() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

TensorView Tensor::view() { return make_view<TensorView>(bytes.data(), *this); }
ConstTensorView Tensor::view() const { return make_view<ConstTensorView>(bytes.data(), *this); }

namespace internal {

FileFormat format_of(const std::filesystem::path& path, const char* function) {
  const std::string ending = path.extension().string();
  if (ending == ".npy") return FileFormat::kNpy;
  if (ending == ".safetensors") return FileFormat::kSafetensors;
  reject("[", function, "] the name of the file must end in .npy or .safetensors, got ",
         quote(path.string()));
}

}  // namespace internal

Tensor read_tensor(const std::filesystem::path& path, std::string_view name) {
  const internal::FileFormat format = internal::format_of(path, "read_tensor");
  const std::string source = path.string();
  if (format == internal::FileFormat::kNpy && !name.empty()) {
    internal::reject("[read_tensor] a .npy file holds one tensor without a name, got the name ",
                     internal::quote(name));
  }
  const MappedFile file(path);
  if (format == internal::FileFormat::kNpy) return parse_npy(file.bytes(), source);
  const auto entries = internal::parse_safetensors_header(file.bytes(), source);
  return internal::extract_tensor(file.bytes(), source, pick(entries, name, source));
}

std::vector<Tensor> read_safetensors(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_safetensors(file.bytes(), path.string());
}

}  // namespace rotary
