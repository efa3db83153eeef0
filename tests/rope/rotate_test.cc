// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One table: target x dtype x layout x pairing x output pairing x direction x in place or not x
// slice x kind of positions x axes, against the reference, with nothing touched outside the slice
// and the view. The first target is held to the reference, the others to the bits of the first.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "reference/rotation.h"
#include "rope/case.h"
#include "rope/expect_rotation.h"
#include "rope/on_every_target.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

using reference::Map;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

/// Out of place goes to another layout of the same rank.
Layout layout_of_output(const Case& c) {
  if (c.target == Target::kInPlace || c.layout == Layout::kRank3) return c.layout;
  return c.layout == Layout::kContiguous ? Layout::kHeadsFirst : Layout::kContiguous;
}

/// A case with its memory, to be run on one target after the other.
class Experiment {
 public:
  explicit Experiment(const Case& c)
      : case_(c),
        positions_(c),
        rope_(frequencies_of(c), head_layout(c)),
        out_(layout_of_output(c), c.dtype, c.sizes, 1, c.misaligned),
        before_(out_.snapshot()) {
    if (c.target == Target::kOutOfPlace) in_.emplace(c.layout, c.dtype, c.sizes, 2, c.misaligned);
  }

  AssertionResult run() {
    out_.restore(before_);
    if (first_) {
      apply();
      if (out_.memory() == *first_) return AssertionSuccess();
      return AssertionFailure() << case_.name() << ": bits differ from those of the first target";
    }
    const auto x = in_ ? in_->values() : out_.values();
    const auto in_before = in_ ? in_->snapshot() : before_;
    apply();
    first_ = out_.snapshot();
    if (in_ && !(in_->memory() == in_before)) {
      return AssertionFailure() << case_.name() << ": input was written";
    }
    return compare(x);
  }

 private:
  void apply() const {
    const Positions positions = positions_.positions();
    const TensorView& out = out_.view();
    if (!in_) {
      if (case_.map == Map::kRotate) return rope_.rotate(out, positions);
      if (case_.map == Map::kUnrotate) return rope_.unrotate(out, positions);
      return rope_.adjoint(out, positions);
    }
    if (case_.map == Map::kRotate) return rope_.rotate(in_->view(), out, positions);
    if (case_.map == Map::kUnrotate) return rope_.unrotate(in_->view(), out, positions);
    return rope_.adjoint(in_->view(), out, positions);
  }

  AssertionResult compare(const std::vector<long double>& x) const {
    const auto expected = reference::rotate(rope_.frequencies(), rope_.layout(), case_.map, x,
                                            case_.sizes.heads, positions_.values());
    const WrittenSlice slice{.offset = rope_.layout().rotary_offset,
                             .pairs = case_.pairs,
                             .pairing = case_.map == Map::kRotate ? case_.output : case_.pairing};
    AssertionResult rotated = holds_rotation(out_, slice, expected, units_of(case_.dtype));
    if (!rotated) return AssertionFailure() << case_.name() << ": " << rotated.message();
    AssertionResult kept = kept_the_rest(out_, slice, before_, in_.has_value());
    if (!kept) return AssertionFailure() << case_.name() << ": " << kept.message();
    return AssertionSuccess();
  }

  Case case_;
  TestPositions positions_;
  Rope rope_;
  PlacedTensor out_;
  std::optional<PlacedTensor> in_;  // out of place
  reference::Elements before_;
  std::optional<reference::Elements> first_;  // what the first target made of `out_`
};

/// Batch, tokens, heads; every case takes the next of each list, and the lengths of the lists, 7,
/// 23 and 5, share no divisor with the other counts.
constexpr std::array<Sizes, 7> kSizes = {{{2, 5, 3, 0},
                                          {1, 1, 1, 0},
                                          {3, 2, 1, 0},
                                          {2, 0, 3, 0},
                                          {1, 7, 2, 0},
                                          {0, 4, 2, 0},
                                          {2, 3, 0, 0}}};
/// Less than a vector, whole vectors of every width, one more and one less; 300 is beyond what
/// calls have room for on the stack.
constexpr std::array<std::int64_t, 23> kPairs = {12, 1,  33, 3, 16, 4,  17, 5,  64, 2, 15, 6,
                                                 80, 31, 3,  8, 32, 16, 7,  12, 9,  4, 300};
constexpr std::int64_t kMisalignments = 5;

using Param = std::tuple<DType, Layout>;
class RotateTest : public testing::TestWithParam<Param> {
 protected:
  /// The next case in the rotation of sizes.
  Case make_case(Pairing pairing, Pairing output, Map map, Target target, Slice slice, Kind kind,
                 std::int64_t axes) {
    const auto [dtype, layout] = GetParam();
    const std::size_t n = count_++;
    Case c{dtype,
           layout,
           pairing,
           output,
           map,
           target,
           slice,
           kind,
           axes,
           kPairs[n % kPairs.size()],
           kSizes[n % kSizes.size()],
           static_cast<std::int64_t>(n) % kMisalignments};
    if (layout == Layout::kRank3) c.sizes.batch = 1;
    c.sizes.head_dim = slice == Slice::kFull ? 2 * c.pairs : 2 * c.pairs + 5;
    return c;
  }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_ = 0;
};

/// Runs all on every target.
void check(std::vector<std::unique_ptr<Experiment>>& experiments) {
  on_every_target([&](std::string_view) {
    for (const auto& experiment : experiments) ASSERT_TRUE(experiment->run());
  });
}

TEST_P(RotateTest, MatchesTheReference) {
  constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
  for (const Pairing pairing : kPairings) {
    for (const Pairing output : kPairings) {
      for (const Map map : {Map::kRotate, Map::kUnrotate, Map::kAdjoint}) {
        for (const Target target : {Target::kInPlace, Target::kOutOfPlace}) {
          std::vector<std::unique_ptr<Experiment>> experiments;
          for (const Slice slice :
               {Slice::kFull, Slice::kLeading, Slice::kOffset, Slice::kTrailing}) {
            for (int kind = 0; kind < 8; ++kind) {
              for (std::int64_t axes = 1; axes <= 4; ++axes) {
                experiments.push_back(std::make_unique<Experiment>(
                    make_case(pairing, output, map, target, slice, static_cast<Kind>(kind), axes)));
              }
            }
          }
          check(experiments);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_EQ(count(), 2u * 2 * 3 * 2 * 4 * 8 * 4);
}

// The engine without vectors is always there, and is the last.
TEST(Targets, EndWithAnEmulatedOne) {
  const auto targets = cpu_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_TRUE(targets.back() == "SCALAR" || targets.back() == "EMU128") << targets.back();
  EXPECT_EQ(cpu_target(), targets.front());
}

INSTANTIATE_TEST_SUITE_P(
    All, RotateTest,
    testing::Combine(testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                     DType::kFloat16),
                     testing::Values(Layout::kContiguous, Layout::kRank3, Layout::kHeadsFirst,
                                     Layout::kPackedQkv, Layout::kHeadwiseQkv,
                                     Layout::kInnerStride2, Layout::kBackwards)),
    [](const testing::TestParamInfo<Param>& param) {
      return std::string(name_of(std::get<0>(param.param))) + "_" +
             std::string(name_of(std::get<1>(param.param)));
    });

}  // namespace
}  // namespace rotary
