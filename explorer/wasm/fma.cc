// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// std::fma for WebAssembly, which has no such instruction: faster than the C library's, with the
// same bits. a b + c is an exact sum of three doubles, the two smaller of which are added with
// rounding to odd, so that the last addition rounds once (Boldo and Melquiond, IEEE Transactions on
// Computers 57, 2008). Beyond 2^-400 and 2^400, which the library does not reach, it may round
// twice.
#include <bit>
#include <cmath>
#include <cstdint>

#include "support/portable_cos_sin.h"

namespace {

using rotary::internal::DoubleDouble;

/// a + b rounded to odd: the last bit is set if the sum is not exact.
double odd_sum(double a, double b) {
  const DoubleDouble sum = rotary::internal::exact_sum(a, b);
  if (sum.low == 0.0) return sum.high;
  auto bits = std::bit_cast<std::uint64_t>(sum.high);
  if ((bits & 1u) == 0) {
    // One step towards the rest: away from zero if both have the same sign.
    bits += (sum.low > 0.0) == (sum.high > 0.0) ? 1 : static_cast<std::uint64_t>(-1);
  }
  return std::bit_cast<double>(bits);
}

/// Far from overflow and underflow, also of the parts of a product.
bool is_ordinary(double x) {
  const double size = std::fabs(x);
  return size > 0x1p-400 && size < 0x1p400;
}

}  // namespace

extern "C" double fma(double a, double b, double c) {
  if (a == 0.0 || b == 0.0 || c == 0.0) return a * b + c;
  if (!is_ordinary(a) || !is_ordinary(b) || !is_ordinary(c)) {
    return static_cast<double>(static_cast<long double>(a) * b + c);
  }
  const DoubleDouble product = rotary::internal::exact_product(a, b);
  const DoubleDouble lower = rotary::internal::exact_sum(c, product.low);
  const DoubleDouble upper = rotary::internal::exact_sum(product.high, lower.high);
  return upper.high + odd_sum(upper.low, lower.low);
}
