// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The Highway targets of the CPU engine against each other and against the definition of the phase:
// the same bits for every value of an element type.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/rotate_armv86.h"
#include "engine/phase.h"
#include "reference/oracle.h"
#include "reference/rotation.h"
#include "rope/expect_rotation.h"
#include "rope/on_every_target.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"
#include "support/half.h"

namespace rotary {
namespace {

using reference::Elements;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};

TEST(CpuTargets, RejectsUnknownTarget) {
  EXPECT_THROW(use_cpu_target("Z80"), std::invalid_argument);
}

TEST(CpuTargets, SelectsEveryTargetByName) {
  const auto targets = cpu_targets();
  for (const std::string_view name : targets) {
    use_cpu_target(name);
    EXPECT_EQ(cpu_target(), name);
    EXPECT_EQ(cpu_targets(), targets);  // the others are still listed
    EXPECT_EQ(cpu_target(), name);      // and listing them changed nothing
  }
  use_cpu_target("");
  EXPECT_EQ(cpu_target(), targets.front());
}

/// Whether this CPU has the instructions of rotate_armv86.cc. scripts/cross.sh says so of an
/// emulated one, in which /proc/cpuinfo is that of the machine.
bool expects_armv86() {
  if (const char* emulated = std::getenv("ROTARY_EXPECT_ARMV86")) {
    return std::string_view(emulated) == "1";
  }
  std::ifstream file("/proc/cpuinfo");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto begin = text.find("Features");  // of AArch64; x86 calls them flags
  if (begin == std::string::npos) return false;
  const std::string features = text.substr(begin, text.find('\n', begin) - begin) + ' ';
  const auto has = [&](std::string_view name) {
    return features.find(' ' + std::string(name) + ' ') != std::string::npos;
  };
  return has("bf16") && has("asimdfhm") && has("fcma");
}

TEST(CpuTargets, UsesNewerArmInstructionsWhereTheCpuHasThem) {
  EXPECT_EQ(internal::has_armv86(), expects_armv86());
}

/// Bits of each element; all NaNs compare equal.
std::vector<std::uint64_t> comparable(const Elements& memory) {
  std::vector<std::uint64_t> list;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    list.push_back(std::isnan(memory.get(i)) ? ~std::uint64_t{0} : memory.bits(i));
  }
  return list;
}

/// Random values with zeros, subnormals, the largest, infinities and NaN among them.
void fill_with_specials(Elements& memory, unsigned seed) {
  const bool wide = memory.dtype() == DType::kFloat64;
  const double least = wide                                 ? 0x1p-1074
                       : memory.dtype() == DType::kFloat16  ? 0x1p-24
                       : memory.dtype() == DType::kBFloat16 ? 0x1p-133
                                                            : 0x1p-149;
  const double largest = wide                                ? std::numeric_limits<double>::max()
                         : memory.dtype() == DType::kFloat16 ? 65504.0
                         : memory.dtype() == DType::kBFloat16
                             ? 0x1.fep127
                             : static_cast<double>(std::numeric_limits<float>::max());
  const double specials[] = {0.0,
                             -0.0,
                             least,
                             -3.0 * least,
                             17.0 * least,
                             largest,
                             -largest,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> any(-4.0, 4.0);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory.set(i, random() % 4 == 0 ? specials[random() % std::size(specials)] : any(random));
  }
}

// Every operation, pairing and element type; head sizes around multiples of the vector size;
// integer and real positions. The allocation ends with the tensor, so that the address sanitizer
// finds accesses past it.
TEST(CpuTargets, SameBitsOnEveryTarget) {
  const std::vector<double> reals = {0.0, -1.25, 131071.3};
  const std::vector<std::int64_t> integers = {0, -1, (std::int64_t{1} << 31) + 1};
  for (const std::int64_t pairs : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130}) {
    for (const Pairing pairing : kPairings) {
      for (const Pairing output : kPairings) {
        for (const DType dtype : kTypes) {
          const std::int64_t head_dim = 2 * pairs + pairs % 3;
          const Rope rope(make_frequencies({.rotary_dim = 2 * pairs,
                                            .theta = 1e4,
                                            .scaling = Yarn{.factor = 4, .original_context = 64}}),
                          {.head_dim = head_dim, .pairing = pairing, .output_pairing = output});
          const Rope other(make_frequencies({.rotary_dim = 2 * pairs, .theta = 5e5}), rope.layout(),
                           {.precision = Precision::kReference});
          std::vector<std::uint64_t> first;
          on_every_target([&](std::string_view) {
            Elements memory(dtype, static_cast<std::size_t>(3 * 2 * head_dim));
            fill_with_specials(memory, static_cast<unsigned>(pairs));
            std::vector<std::byte> exact(memory.size() * size_of(dtype));
            std::memcpy(exact.data(), memory.data(), exact.size());
            const auto x = TensorView::contiguous(exact.data(), dtype, {3, 2, head_dim});
            std::vector<std::uint64_t> bits;
            const auto note = [&] {
              std::memcpy(memory.data(), exact.data(), exact.size());
              const auto now = comparable(memory);
              bits.insert(bits.end(), now.begin(), now.end());
              fill_with_specials(memory, static_cast<unsigned>(bits.size()));
              std::memcpy(exact.data(), memory.data(), exact.size());
            };
            rope.rotate(x, Positions::ids(integers));
            note();
            rope.unrotate(x, Positions::ids(reals));
            note();
            rope.adjoint(x, Positions::range(39001));
            note();
            rope.shift(x, Positions::ids(reals));
            note();
            rerotate(x, rope, other, Positions::ids(integers));
            note();
            if (first.empty()) first = bits;
            ASSERT_EQ(bits, first) << pairs << ' ' << name_of(dtype) << ' ' << name_of(pairing)
                                   << "->" << name_of(output);
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CpuTargets, SameGradientsOnEveryTarget) {
  const std::vector<double> reals = {0.0, -1.25, 77.7, 4.0, 5.5};
  for (const std::int64_t pairs : {1, 4, 7, 16, 33, 70}) {
    for (const DType dtype : kTypes) {
      for (const Pairing output : kPairings) {
        const Rope rope(
            make_frequencies({.rotary_dim = 2 * pairs, .theta = 1e4, .scaling = Xpos{}}),
            {.head_dim = 2 * pairs, .pairing = Pairing::kHalf, .output_pairing = output});
        const Sizes sizes{.batch = 2, .tokens = 5, .heads = 3, .head_dim = 2 * pairs};
        const PlacedTensor x(Layout::kContiguous, dtype, sizes, 1);
        const PlacedTensor g(Layout::kHeadsFirst, dtype, sizes, 2);
        const GradientOperand operand{x.view(), g.view(), {}};
        std::vector<double> first;
        on_every_target([&](std::string_view) {
          std::vector<double> sums(static_cast<std::size_t>(pairs) + 6);
          rope.gradient(std::span(&operand, 1), Positions::ids(reals),
                        {.frequencies = std::span(sums).first(static_cast<std::size_t>(pairs)),
                         .positions = TensorView::contiguous(&sums[static_cast<std::size_t>(pairs)],
                                                             DType::kFloat64, {1, 5}),
                         .scale = &sums.back()});
          if (first.empty()) first = sums;
          ASSERT_EQ(sums, first) << pairs << ' ' << name_of(dtype) << ' ' << name_of(output);
        });
      }
    }
  }
}

/// Rotates (1, 0) by `positions`, integers or reals, and compares with the phase's cos and sin.
template <typename T, typename Position>
void expect_cos_sin_of_phase(const std::vector<Position>& positions) {
  const Frequencies f = make_frequencies({.rotary_dim = 2 * 37, .theta = 5e5});
  const Rope rope(f, {.head_dim = f.rotary_dim(), .pairing = Pairing::kInterleaved});
  const auto tokens = static_cast<std::int64_t>(positions.size());
  std::vector<T> x(static_cast<std::size_t>(tokens * f.rotary_dim()), T(0));
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = T(1);
  const DType dtype = sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32;
  rope.rotate(TensorView::contiguous(x.data(), dtype, {tokens, 1, f.rotary_dim()}),
              Positions::ids(std::span<const Position>(positions)));
  for (std::size_t t = 0; t < positions.size(); ++t) {
    for (std::int64_t i = 0; i < f.pairs; ++i) {
      const auto z =
          internal::cos_sin<T>(internal::phase_at(positions[t], internal::to_turns(f(i))));
      const std::size_t at =
          t * static_cast<std::size_t>(f.rotary_dim()) + static_cast<std::size_t>(2 * i);
      ASSERT_EQ(x[at], z.cos) << "pair " << i << " at " << positions[t];
      ASSERT_EQ(x[at + 1], z.sin) << "pair " << i << " at " << positions[t];
    }
  }
}

TEST(CpuTargets, CosAndSinMatchThePhase) {
  std::vector<std::int64_t> integers = {
      0,         1,         39001,           131071, 1048575, (1 << 24) - 1, -1, -131071,
      1LL << 31, 1LL << 40, (1LL << 31) + 1, 7,      7};
  std::vector<double> reals = {0.0, 0.5, -0.37, 1e-12, 131071.3, -1e9 / 3.0, 1e15, 1e19, 1e300};
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    integers.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
    reals.push_back(std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                               -static_cast<int>(random() % 80)));
  }
  on_every_target([&](std::string_view) {
    expect_cos_sin_of_phase<float>(integers);
    expect_cos_sin_of_phase<double>(integers);
    expect_cos_sin_of_phase<float>(reals);
    expect_cos_sin_of_phase<double>(reals);
  });
}

// Every 16-bit value, as x of a pair whose frequency is zero, is converted to float and back.
TEST(CpuTargets, Every16BitValueRoundTrips) {
  const Rope identity({.pairs = 16, .values = std::vector<double>(16, 0.0)},
                      {.head_dim = 32, .pairing = Pairing::kHalf});
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    on_every_target([&](std::string_view) {
      std::vector<std::uint16_t> x(2 << 16, 0);  // [4096, 1, 32]
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % 32 < 16) x[i] = static_cast<std::uint16_t>(i / 32 * 16 + i % 32);
      }
      identity.rotate(TensorView::contiguous(x.data(), dtype, {4096, 1, 32}), Positions::range());
      const auto value = [dtype](std::uint16_t bits) {
        return dtype == DType::kFloat16 ? internal::from_float16(bits)
                                        : internal::from_bfloat16(bits);
      };
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (i % 32 >= 16) continue;
        const auto before = static_cast<std::uint16_t>(i / 32 * 16 + i % 32);
        if (std::isnan(value(before))) {
          ASSERT_TRUE(std::isnan(value(x[i]))) << before;
          ASSERT_TRUE(std::isnan(value(x[i + 16]))) << before;
        } else {
          ASSERT_EQ(x[i], before);
        }
      }
    });
  }
}

// Rounded once: each error is at most half an ulp plus that of float32, and the root mean square is
// within 1 % of rounding the exact result.
TEST(CpuTargets, Rounds16BitResultsOnce) {
  constexpr Sizes kSizes{.batch = 1, .tokens = 64, .heads = 4, .head_dim = 64};
  const Frequencies f = make_frequencies({.rotary_dim = 64, .theta = 1e4});
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const Pairing pairing : kPairings) {
      const Rope rope(f, {.head_dim = 64, .pairing = pairing});
      const auto expected = [&] {
        const PlacedTensor x(Layout::kContiguous, dtype, kSizes, 1);
        return reference::multiply(rope.layout(), f.pairs, pairing, pairing, x.values(),
                                   kSizes.heads, [&](std::int64_t token, std::int64_t pair) {
                                     const auto z = reference::cos_sin_at(f(pair), 131000 + token);
                                     return std::complex<long double>(z.cos, z.sin);
                                   });
      }();
      on_every_target([&](std::string_view) {
        const PlacedTensor x(Layout::kContiguous, dtype, kSizes, 1);
        rope.rotate(x.view(), Positions::range(131000));
        EXPECT_TRUE(holds_rotation(x, {0, f.pairs, pairing}, expected, units_of(dtype)));
        const auto got = x.values();
        Elements once(dtype, got.size());
        long double error = 0.0L;
        long double rounding_error = 0.0L;
        for (std::size_t i = 0; i < got.size(); ++i) {
          once.set(i, static_cast<double>(expected[i]));
          const long double rounded = static_cast<long double>(once.get(i)) - expected[i];
          error += (got[i] - expected[i]) * (got[i] - expected[i]);
          rounding_error += rounded * rounded;
        }
        EXPECT_LE(std::sqrt(error), 1.01L * std::sqrt(rounding_error)) << name_of(dtype);
      });
    }
  }
}

}  // namespace
}  // namespace rotary
