// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A floating-point number of 256 bits (MPFR) with operators, for reference formulas.
#pragma once

#include <mpfr.h>

#include <compare>
#include <concepts>
#include <ostream>

namespace rotary::reference {

class Real {
 public:
  static constexpr mpfr_prec_t kBits = 256;

  // Implicit, so that formulas read as they are printed: 0.1 * log(s) + 1.
  Real(double value = 0.0) : Real(Init{}) { mpfr_set_d(value_, value, MPFR_RNDN); }  // NOLINT
  Real(long double value) : Real(Init{}) { mpfr_set_ld(value_, value, MPFR_RNDN); }  // NOLINT
  template <std::signed_integral Integer>
  Real(Integer value) : Real(Init{}) {  // NOLINT
    static_assert(sizeof(Integer) <= sizeof(long));
    mpfr_set_si(value_, static_cast<long>(value), MPFR_RNDN);
  }
  Real(const Real& other) : Real(Init{}) { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real(Real&& other) noexcept : Real(Init{}) { mpfr_swap(value_, other.value_); }
  Real& operator=(const Real& other) {
    if (this != &other) mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  Real& operator=(Real&& other) noexcept {
    mpfr_swap(value_, other.value_);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  explicit operator double() const { return mpfr_get_d(value_, MPFR_RNDN); }
  explicit operator long double() const { return mpfr_get_ld(value_, MPFR_RNDN); }

  friend Real operator+(const Real& a, const Real& b) { return made(mpfr_add, a, b); }
  friend Real operator-(const Real& a, const Real& b) { return made(mpfr_sub, a, b); }
  friend Real operator*(const Real& a, const Real& b) { return made(mpfr_mul, a, b); }
  friend Real operator/(const Real& a, const Real& b) { return made(mpfr_div, a, b); }
  friend Real operator-(const Real& a) { return made(mpfr_neg, a); }
  friend Real pow(const Real& a, const Real& b) { return made(mpfr_pow, a, b); }
  friend Real exp(const Real& a) { return made(mpfr_exp, a); }
  friend Real log(const Real& a) { return made(mpfr_log, a); }
  friend Real sqrt(const Real& a) { return made(mpfr_sqrt, a); }
  friend Real cos(const Real& a) { return made(mpfr_cos, a); }
  friend Real sin(const Real& a) { return made(mpfr_sin, a); }
  friend Real abs(const Real& a) { return made(mpfr_abs, a); }
  friend Real floor(const Real& a) { return made(mpfr_rint_floor, a); }
  friend Real ceil(const Real& a) { return made(mpfr_rint_ceil, a); }

  friend bool operator==(const Real& a, const Real& b) { return mpfr_equal_p(a.value_, b.value_); }
  friend auto operator<=>(const Real& a, const Real& b) {
    return mpfr_cmp(a.value_, b.value_) <=> 0;
  }
  friend std::ostream& operator<<(std::ostream& out, const Real& a) {
    return out << static_cast<long double>(a);
  }

  static Real pi() {
    Real result;
    mpfr_const_pi(result.value_, MPFR_RNDN);
    return result;
  }

 private:
  struct Init {};
  explicit Real(Init) { mpfr_init2(value_, kBits); }  // NOLINT: which is its initialisation

  template <typename Function, typename... Args>
  static Real made(Function function, const Args&... args) {
    Real result;
    function(result.value_, args.value_..., MPFR_RNDN);
    return result;
  }

  mpfr_t value_;
};

}  // namespace rotary::reference
