// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Work on several threads, split as the library splits it: equal runs of tokens, on OpenMP's
// threads.
#pragma once

#include <cstdint>
#include <functional>

namespace rotary::measure {

/// As many threads as OpenMP uses; 1 in a build without it.
int all_threads() noexcept;

namespace detail {
void on_threads(int threads, std::int64_t rows,
                const std::function<void(std::int64_t, std::int64_t)>& body);
}  // namespace detail

/// Calls body(first, last) for `threads` runs of the rows 0 .. rows-1, each on its thread. `body`
/// must not throw. One thread costs nothing but the call.
template <typename Body>
void in_parts(int threads, std::int64_t rows, const Body& body) {
  if (threads <= 1 || rows <= 1) {
    body(std::int64_t{0}, rows);
  } else {
    detail::on_threads(threads, rows, std::cref(body));
  }
}

}  // namespace rotary::measure
