// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Memory for measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "rotary/tensor.h"

namespace rotary::measure {

/// [rows, row_elements] of one type, page-aligned, plus one page for results that start at an
/// offset. Every page is first touched by the thread that works on it later, so that no page faults
/// occur while timing. Huge pages are neither requested nor disabled: the same for all candidates.
class Buffer {
 public:
  /// Filled with values of magnitude [1, 2) and either sign. Throws std::bad_alloc.
  Buffer(std::int64_t rows, std::int64_t row_elements, DType dtype, int threads);

  std::byte* data() const noexcept { return data_.get(); }
  std::int64_t row_bytes() const noexcept { return row_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };

  std::int64_t row_bytes_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace rotary::measure
