// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies and rotations have the same bits on every machine: their hashes are compared with
// those stored in tests/golden/stored_bits.json, which x86-64 and AArch64 share. After an intended
// change of results, write them anew with
//
//   ROTARY_STORE_BITS=1 build/tests/stored_bits_test
//
// Frequencies with growth (xPos) are left out of the rotations: they depend on the exp of libm.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "reference/elements.h"
#include "reference/golden_file.h"
#include "rotary/model.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr const char* kFile = "stored_bits.json";

/// FNV-1a over the bytes of words, least significant first.
class Hash {
 public:
  void add(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) {
      value_ = (value_ ^ ((word >> shift) & 0xff)) * 0x100000001b3;
    }
  }
  void add(double value) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    add(word);
  }
  std::string hex() const { return text("%016llx", value_); }
  /// Four digits, where there are many.
  std::string short_hex() const { return text("%04llx", (value_ ^ value_ >> 32) % 0x10000); }

 private:
  static std::string text(const char* format, std::uint64_t value) {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), format, static_cast<unsigned long long>(value));
    return digits.data();
  }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Numbers, from 0, of the words in which two lists of hashes differ.
std::vector<std::size_t> differing_words(const std::string& a, const std::string& b) {
  std::istringstream left(a);
  std::istringstream right(b);
  std::vector<std::size_t> differing;
  std::string x;
  std::string y;
  for (std::size_t i = 0; left >> x && right >> y; ++i) {
    if (x != y) differing.push_back(i);
  }
  return differing;
}

using Hashes = std::map<std::string, std::string>;

/// Compares with a member of the stored file, or replaces it where ROTARY_STORE_BITS is set.
void expect_stored(const char* member, const Hashes& made) {
  nlohmann::json stored = reference::load_golden(kFile);
  if (std::getenv("ROTARY_STORE_BITS") != nullptr) {
    stored[member] = made;
    std::ofstream(std::string(ROTARY_TESTS_DIR) + "/golden/" + kFile) << stored.dump(1) << '\n';
    return;
  }
  const auto expected = stored.at(member).get<Hashes>();
  ASSERT_EQ(expected.size(), made.size());
  for (const auto& [name, hashes] : made) {
    EXPECT_TRUE(expected.at(name) == hashes)
        << name << " differs at "
        << testing::PrintToString(differing_words(expected.at(name), hashes));
  }
}

/// One hash a golden row, in their order: all its ropes, as trained and at 131,072 positions.
std::string hash_rows(const char* golden) {
  std::string hashes;
  const nlohmann::json file = reference::load_golden(golden);
  for (const nlohmann::json& row : file.at("rows")) {
    Hash hash;
    for (const ModelRope& rope : Model::from_config(row.at("config").dump()).ropes) {
      for (const std::int64_t context : {0, 131072}) {
        const Frequencies f = rope.make_frequencies(context);
        for (const double value : f.values) hash.add(value);
        hash.add(f.scale);
        hash.add(f.softmax_scale);
      }
    }
    hashes += (hashes.empty() ? "" : " ") + hash.short_hex();
  }
  return hashes;
}

TEST(StoredBits, FrequenciesOfGoldenConfigs) {
  Hashes made;
  for (const char* golden :
       {"families.json", "families_more.json", "families_5.23.json", "legacy.json",
        "legacy_more.json", "scaling.json", "scaling_more.json"}) {
    made[golden] = hash_rows(golden);
  }
  expect_stored("frequencies", made);
}

constexpr std::int64_t kTokens = 9;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kHeadDim = 45;

/// 19 pairs: a remainder for every vector width. Made of quotients, which no libm rounds.
Frequencies frequencies_over(std::int64_t axes) {
  Frequencies f{.pairs = 19, .axes = axes, .scale = 1.1386};
  for (std::int64_t i = 0; i < f.pairs; ++i) {
    for (std::int64_t a = 0; a < axes; ++a) {
      const double sign = i % 5 == 4 ? -1.0 : 1.0;
      f.values.push_back(sign / static_cast<double>(1 + i * i * i + 7 * a));
    }
  }
  return f;
}

struct RotationCase {
  DType dtype;
  Pairing read;
  Pairing write;
  Precision precision;

  std::string name() const {
    return std::string(name_of(dtype)) + " " + std::string(name_of(read)) + " to " +
           std::string(name_of(write)) + (precision == Precision::kExact ? " exact" : " reference");
  }
};

/// Adds the bits of `call(rope, x)` for a fixed x [tokens, heads, head_dim].
template <typename Call>
void add_result(const RotationCase& c, const Rope& rope, const Call& call, Hash& hash) {
  reference::Elements x(c.dtype, kTokens * kHeads * kHeadDim);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.set(i, static_cast<double>((i * 7919 + 13) % 2003) / 1001.5 - 1.0);
  }
  call(rope, TensorView::contiguous(x.data(), c.dtype, {kTokens, kHeads, kHeadDim}));
  for (std::size_t i = 0; i < x.size(); ++i) hash.add(x.bits(i));
}

void add_calls(const RotationCase& c, const Rope& rope, const Positions& positions, Hash& hash) {
  add_result(c, rope, [&](const Rope& r, const TensorView& x) { r.rotate(x, positions); }, hash);
  add_result(c, rope, [&](const Rope& r, const TensorView& x) { r.unrotate(x, positions); }, hash);
  add_result(c, rope, [&](const Rope& r, const TensorView& x) { r.adjoint(x, positions); }, hash);
  add_result(c, rope, [&](const Rope& r, const TensorView& x) { r.shift(x, positions); }, hash);
}

std::string hash_rotations(const RotationCase& c) {
  static constexpr std::array<std::int64_t, kTokens> kIds = {
      0, 1, 39001, 131071, 1048575, (1 << 24) - 1, (std::int64_t{1} << 31) + 1, -7, -131072};
  static constexpr std::array<double, kTokens> kReals = {0.0,       0.5,      -1.25, 1000.125, 0.1,
                                                         131071.75, -39001.3, 1e-6,  77.0};
  Hash hash;
  for (const std::int64_t axes : {1, 3}) {
    const Rope rope(
        frequencies_over(axes),
        {.head_dim = kHeadDim, .rotary_offset = 4, .pairing = c.read, .output_pairing = c.write},
        {.precision = c.precision});
    const auto on_axes = [axes](const Positions& one) {
      return axes == 1 ? one : one.on_all_axes();
    };
    add_calls(c, rope, on_axes(Positions::range(131069)), hash);
    add_calls(c, rope, on_axes(Positions::ids(std::span<const std::int64_t>(kIds))), hash);
    add_calls(c, rope, on_axes(Positions::ids(std::span<const double>(kReals))), hash);
    if (axes == 1) continue;
    std::vector<std::int64_t> grid;  // [axes, tokens]
    for (std::int64_t i = 0; i < axes * kTokens; ++i) grid.push_back((37 * i) % 97 - 40);
    add_calls(
        c, rope,
        Positions::ids(ConstTensorView::contiguous(grid.data(), DType::kInt64, {axes, kTokens})),
        hash);
  }
  return hash.hex();
}

TEST(StoredBits, Rotations) {
  Hashes made;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    for (const Pairing read : {Pairing::kInterleaved, Pairing::kHalf}) {
      for (const Pairing write : {Pairing::kInterleaved, Pairing::kHalf}) {
        for (const Precision precision : {Precision::kExact, Precision::kReference}) {
          const RotationCase c{dtype, read, write, precision};
          made[c.name()] = hash_rotations(c);
        }
      }
    }
  }
  expect_stored("rotations", made);
}

}  // namespace
}  // namespace rotary
