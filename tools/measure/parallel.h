// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parallel loops, split like those of the library: equal ranges of tokens on OpenMP threads.
#pragma once

#include <cstdint>
#include <functional>

namespace rotary::measure {

/// The number of OpenMP threads; 1 in a build without OpenMP.
int max_threads() noexcept;

namespace detail {
void on_threads(int threads, std::int64_t rows,
                const std::function<void(std::int64_t, std::int64_t)>& body);
}  // namespace detail

/// Calls body(first, last) for `threads` equal ranges of the rows 0 .. rows-1, one per thread.
/// `body` must not throw. With one thread it is a plain call.
template <typename Body>
void parallel_for_rows(int threads, std::int64_t rows, const Body& body) {
  if (threads <= 1 || rows <= 1) {
    body(std::int64_t{0}, rows);
  } else {
    detail::on_threads(threads, rows, std::cref(body));
  }
}

}  // namespace rotary::measure
