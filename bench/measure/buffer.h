// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Memory to measure with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "rotary/tensor.h"

namespace rotary::measure {

/// [rows, row_elements] of one type, and a page more, for results that begin some bytes later.
/// Begins on a page, and every page has been written, by the thread that works on it later: nothing
/// is mapped while the clock runs. Asks for no huge pages and refuses none, so that all candidates
/// meet the same ones.
class Buffer {
 public:
  /// Numbers from [1, 2), of either sign. Throws std::bad_alloc.
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
