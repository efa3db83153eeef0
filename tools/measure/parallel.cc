// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace rotary::measure {

int max_threads() noexcept {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void detail::on_threads([[maybe_unused]] int threads, std::int64_t rows,
                        const std::function<void(std::int64_t, std::int64_t)>& body) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    const int part = omp_get_thread_num();
    const int parts = omp_get_num_threads();
    body(rows * part / parts, rows * (part + 1) / parts);
  }
#else
  body(0, rows);
#endif
}

}  // namespace rotary::measure
