// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tensors in files: NumPy's .npy and Hugging Face's .safetensors.
///
///   rotary::Tensor q = rotary::read_tensor("q.safetensors");
///   rope.rotate(q.view(), rotary::Positions::range());
///   rotary::write_tensor("rotated.npy", q.view());
///
/// Files are not trusted: every length is checked against the size of the file before anything is
/// allocated, and what breaks a rule is an IoError with path and byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/error.h"
#include "rotary/tensor.h"

namespace rotary {

/// A tensor that owns its memory: row-major, on the CPU.
struct Tensor {
  std::string name{};
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape{};
  std::vector<std::byte> bytes{};

  std::int64_t num_elements() const noexcept;
  /// Throws std::invalid_argument for more than kMaxRank dimensions.
  TensorView view();
  ConstTensorView view() const;
};

/// A whole file, mapped read-only into memory: opening a file of many gigabytes costs nothing.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const noexcept { return bytes_; }

 private:
  std::string_view bytes_;
};

/// Reads one tensor; the ending of the name decides the format. `name` picks a tensor of a
/// .safetensors file and may be empty where the file holds just one.
///   .npy          versions 1 to 3; f2 f4 f8 i4 i8, little or big endian, C or Fortran order
///   .safetensors  F16 BF16 F32 F64 I32 I64
Tensor read_tensor(const std::filesystem::path& path, std::string_view name = {});

/// Reads every tensor of a .safetensors file, in the order of their offsets.
std::vector<Tensor> read_safetensors(const std::filesystem::path& path);

/// Writes one tensor, any strides; the ending decides the format. The file appears under its name
/// only when it is complete: it is written beside it and renamed. .npy has no bfloat16: IoError.
void write_tensor(const std::filesystem::path& path, const ConstTensorView& tensor,
                  std::string_view name = "tensor");

/// The same formats from and to memory; `source` names the bytes in errors.
Tensor parse_npy(std::string_view bytes, const std::string& source);
std::vector<Tensor> parse_safetensors(std::string_view bytes, const std::string& source);

}  // namespace rotary
