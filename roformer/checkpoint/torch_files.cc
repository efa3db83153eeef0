// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Files of torch.save().
#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "io/torch_file.h"
#include "roformer/checkpoint/tensor_files.h"
#include "rotary/io.h"

namespace rotary::roformer {
namespace {

/// Row-major copy, element by element: the legacy format aligns nothing.
at::Tensor copy_elements(const char* data, const internal::TorchEntry& entry, at::ScalarType type) {
  at::Tensor copy = at::empty(entry.shape, type);
  const std::size_t size = entry.element_size;
  char* out = static_cast<char*>(copy.data_ptr());
  if (copy.strides() == at::IntArrayRef(entry.strides)) {
    std::memcpy(out, data, copy.nbytes());
    return copy;
  }
  std::vector<std::int64_t> at(entry.shape.size(), 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0, count = copy.numel(); i < count; ++i, out += size) {
    std::memcpy(out, data + static_cast<std::size_t>(offset) * size, size);
    for (std::size_t d = at.size(); d-- > 0;) {
      offset += entry.strides[d];
      if (++at[d] < entry.shape[d]) break;
      offset -= entry.strides[d] * entry.shape[d];
      at[d] = 0;
    }
  }
  return copy;
}

}  // namespace

TensorMap read_torch_tensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  TensorMap tensors;
  for (const auto& entry : internal::parse_torch_file(file->bytes(), path.string())) {
    const at::ScalarType type = scalar_type_of(entry.dtype).value();
    const char* data = file->bytes().data() + entry.begin;
    at::Tensor tensor;
    if (c10::multiply_integers(entry.shape) == 0) {
      tensor = at::empty(entry.shape, type);
    } else if (reinterpret_cast<std::uintptr_t>(data) % entry.element_size != 0) {
      tensor = copy_elements(data, entry, type);
    } else {
      tensor = at::from_blob(
          const_cast<char*>(data), entry.shape, entry.strides, [file](void*) {}, type);
    }
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace rotary::roformer
