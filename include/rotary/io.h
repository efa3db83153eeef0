// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tensors in files: NumPy's .npy and Hugging Face's .safetensors.
///
///   rotary::Tensor q = rotary::read_tensor("q.safetensors");
///   rope.rotate(q.view(), rotary::Positions::range());
///   rotary::write_tensor("rotated.npy", q.view());
///
/// Files are not trusted: every length is checked against the file size before allocation, and
/// malformed content is an IoError with path and byte offset.
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

/// A whole file, memory-mapped read-only: opening does not read it. If another process truncates
/// the file meanwhile, reading beyond its new end ends the process by SIGBUS.
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

/// Reads one tensor; the file extension determines the format. `name` selects a tensor of a
/// .safetensors file and may be empty where the file holds only one.
///   .npy          versions 1 to 3; f2 f4 f8 i4 i8, little or big endian, C or Fortran order
///   .safetensors  F16 BF16 F32 F64 I32 I64
Tensor read_tensor(const std::filesystem::path& path, std::string_view name = {});

/// Reads every tensor of a .safetensors file, in the order of their offsets.
std::vector<Tensor> read_safetensors(const std::filesystem::path& path);

/// Writes one tensor, any strides; the file extension determines the format. The file is complete
/// and on the disk before it appears under its name: it is written to a temporary file beside it,
/// synced, then renamed. Permissions of a replaced file are kept; of a symbolic link, the file that
/// it leads to is replaced. IoError for a folder, FIFO or device, and for bfloat16 in .npy.
void write_tensor(const std::filesystem::path& path, const ConstTensorView& tensor,
                  std::string_view name = "tensor");

/// Writes a copy of the .safetensors file `in` to `out`, in the same way, in which one tensor has
/// other values, of the same dtype and shape; all other tensors and the metadata are kept byte for
/// byte. `out` may be `in`. `name` may be empty where the file holds only one tensor.
void write_with_tensor(const std::filesystem::path& in, const std::filesystem::path& out,
                       const ConstTensorView& tensor, std::string_view name = {});

/// The same formats from memory; `source` names the bytes in errors.
Tensor parse_npy(std::string_view bytes, const std::string& source);
std::vector<Tensor> parse_safetensors(std::string_view bytes, const std::string& source);

}  // namespace rotary
