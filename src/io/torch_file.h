// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A dict of tensors as torch.save() writes it (pytorch_model.bin), in both of its formats:
//
//   archive   .zip: NAME/data.pkl, the dict, and NAME/data/KEY, the elements of each storage
//   legacy    five pickles, the fourth of which is the dict and the fifth the keys of the storages;
//             then, for each of them, the number of its elements (8 bytes) and the elements
//
// No code of the file is run (see pickle.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::internal {

struct TorchEntry {
  std::string name;
  /// As in .safetensors: "F32".
  std::string_view dtype;
  std::size_t element_size = 0;
  std::vector<std::int64_t> shape;
  /// In elements, none of them negative; not necessarily row-major.
  std::vector<std::int64_t> strides;
  /// Byte offset of the first element in the file. Every element lies in the file.
  std::size_t begin = 0;
};

/// The tensors of a file, in the order of the dict; they may share bytes. Throws IoError for a file
/// that is malformed, big-endian, or has anything but tensors in its dict. No tensor has more
/// elements than its storage, and all together at most 16 times the bytes of the file: what they
/// cost is linear in its size.
std::vector<TorchEntry> parse_torch_file(std::string_view bytes, const std::string& source);

}  // namespace rotary::internal
