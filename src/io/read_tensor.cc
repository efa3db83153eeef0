// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::Tensor, rotary::read_tensor and rotary::read_safetensors.
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
  const std::string extension = path.extension().string();
  if (extension == ".npy") return FileFormat::kNpy;
  if (extension == ".safetensors") return FileFormat::kSafetensors;
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
  return internal::extract_tensor(file.bytes(), source,
                                  internal::select_entry(entries, name, source));
}

std::vector<Tensor> read_safetensors(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_safetensors(file.bytes(), path.string());
}

}  // namespace rotary
