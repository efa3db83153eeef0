// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation table: dtype x layout x pairing x output pairing x direction x in place or not x
// slice x kind of positions x axes. Each case runs on several engines: the first is compared with
// the reference, the others with the bits of the first.
#pragma once

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
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {

/// How the engines after the first must agree with it.
enum class Match : std::uint8_t {
  kBits,
  kBitsUnlessGrowing,  // with growth (another exp): compared with the reference
};

/// A case with its memory, run on one engine after the other.
class Experiment {
 public:
  explicit Experiment(const Case& c)
      : case_(c),
        positions_(c),
        rope_(frequencies_of(c), head_layout(c)),
        out_(layout_of_output(c), c.dtype, c.sizes, 1, c.misaligned),
        before_(out_.snapshot()) {
    if (c.target == Target::kInPlace) return;
    in_.emplace(c.layout, c.dtype, c.sizes, 2, c.misaligned);
    in_before_ = in_->snapshot();
  }

  PlacedTensor& out() { return out_; }
  /// Null in place.
  PlacedTensor* in() { return in_ ? &*in_ : nullptr; }
  Positions positions() const { return positions_.positions(); }

  /// The call, on views of these tensors on any device; `in` null: in place.
  void apply(const TensorView* in, const TensorView& out, const Positions& positions,
             const WriteOrder& order = {}) const {
    using reference::Map;
    const Rope rope = order == WriteOrder{} ? rope_ : rope_.with_order(order);
    if (in == nullptr) {
      if (case_.map == Map::kRotate) return rope.rotate(out, positions);
      if (case_.map == Map::kUnrotate) return rope.unrotate(out, positions);
      return rope.adjoint(out, positions);
    }
    if (case_.map == Map::kRotate) return rope.rotate(*in, out, positions);
    if (case_.map == Map::kUnrotate) return rope.unrotate(*in, out, positions);
    return rope.adjoint(*in, out, positions);
  }

  /// engine(*this) calls apply() and leaves the results in in() and out().
  template <typename Engine>
  testing::AssertionResult run(const Engine& engine, Match match = Match::kBits) {
    out_.restore(before_);
    engine(*this);
    if (in_ && !(in_->memory() == *in_before_)) return failure("input was written");
    if (!first_) {
      first_ = out_.snapshot();
      return compare();
    }
    if (out_.memory() == *first_) return testing::AssertionSuccess();
    if (match == Match::kBitsUnlessGrowing && !rope_.frequencies().growth.empty()) return compare();
    return failure("bits differ from those of the first engine");
  }

 private:
  /// Out of place goes to another layout of the same rank.
  static Layout layout_of_output(const Case& c) {
    if (c.target == Target::kInPlace || c.layout == Layout::kRank3) return c.layout;
    return c.layout == Layout::kContiguous ? Layout::kHeadsFirst : Layout::kContiguous;
  }

  testing::AssertionResult failure(const char* what) const {
    return testing::AssertionFailure() << case_.name() << ": " << what;
  }

  std::vector<long double> input() {
    if (in_) return in_->values();
    const auto after = out_.snapshot();
    out_.restore(before_);
    auto values = out_.values();
    out_.restore(after);
    return values;
  }

  testing::AssertionResult compare() {
    const auto expected = reference::rotate(rope_.frequencies(), rope_.layout(), case_.map, input(),
                                            case_.sizes.heads, positions_.values());
    const bool forward = case_.map == reference::Map::kRotate;
    const WrittenSlice slice{.offset = rope_.layout().rotary_offset,
                             .pairs = case_.pairs,
                             .pairing = forward ? case_.output : case_.pairing};
    const auto rotated = holds_rotation(out_, slice, expected, units_of(case_.dtype));
    if (!rotated) return failure(rotated.message());
    const auto kept = kept_the_rest(out_, slice, before_, in_.has_value());
    if (!kept) return failure(kept.message());
    return testing::AssertionSuccess();
  }

  Case case_;
  TestPositions positions_;
  Rope rope_;
  PlacedTensor out_;
  std::optional<PlacedTensor> in_;  // out of place
  reference::Elements before_;
  std::optional<reference::Elements> in_before_;
  std::optional<reference::Elements> first_;  // `out_` of the first engine
};

/// The CPU engine, on the target in use, in its own order.
inline void on_cpu(Experiment& e) {
  e.apply(e.in() == nullptr ? nullptr : &e.in()->view(), e.out().view(), e.positions());
}

/// The same in a given order.
inline auto on_cpu_in(const WriteOrder& order) {
  return [order](Experiment& e) {
    e.apply(e.in() == nullptr ? nullptr : &e.in()->view(), e.out().view(), e.positions(), order);
  };
}

/// The cases of one dtype and layout.
class CaseTable {
 public:
  using Group = std::vector<std::unique_ptr<Experiment>>;

  CaseTable(DType dtype, Layout layout) : dtype_(dtype), layout_(layout) {}

  /// check(group) for 24 groups of 128 cases each, until one fails.
  template <typename Check>
  void for_each_group(const Check& check) {
    using reference::Map;
    constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
    for (const Pairing pairing : kPairings) {
      for (const Pairing output : kPairings) {
        for (const Map map : {Map::kRotate, Map::kUnrotate, Map::kAdjoint}) {
          for (const Target target : {Target::kInPlace, Target::kOutOfPlace}) {
            Group group = make_group(pairing, output, map, target);
            check(group);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
    EXPECT_EQ(count_, 2u * 2 * 3 * 2 * 4 * 8 * 4);
  }

 private:
  /// Batch, tokens, heads. Every case takes the next entry of each list; their lengths, 7, 23 and
  /// 5, are coprime to the other counts.
  static constexpr std::array<Sizes, 7> kSizes = {{{2, 5, 3, 0},
                                                   {1, 1, 1, 0},
                                                   {3, 2, 1, 0},
                                                   {2, 0, 3, 0},
                                                   {1, 7, 2, 0},
                                                   {0, 4, 2, 0},
                                                   {2, 3, 0, 0}}};
  /// Less than a vector, whole vectors of every width, one more and one less; 300 exceeds the stack
  /// buffers of a call.
  static constexpr std::array<std::int64_t, 23> kPairs = {
      12, 1, 33, 3, 16, 4, 17, 5, 64, 2, 15, 6, 80, 31, 3, 8, 32, 16, 7, 12, 9, 4, 300};
  static constexpr std::int64_t kMisalignments = 5;

  Group make_group(Pairing pairing, Pairing output, reference::Map map, Target target) {
    Group group;
    for (const Slice slice : {Slice::kFull, Slice::kLeading, Slice::kOffset, Slice::kTrailing}) {
      for (int kind = 0; kind < 8; ++kind) {
        for (std::int64_t axes = 1; axes <= 4; ++axes) {
          group.push_back(std::make_unique<Experiment>(
              next({dtype_, layout_, pairing, output, map, target, slice, static_cast<Kind>(kind),
                    axes, 0, Sizes{}, 0})));
        }
      }
    }
    return group;
  }

  /// With the next sizes.
  Case next(Case c) {
    const std::size_t n = count_++;
    c.pairs = kPairs[n % kPairs.size()];
    c.sizes = kSizes[n % kSizes.size()];
    c.misaligned = static_cast<std::int64_t>(n) % kMisalignments;
    if (layout_ == Layout::kRank3) c.sizes.batch = 1;
    c.sizes.head_dim = c.slice == Slice::kFull ? 2 * c.pairs : 2 * c.pairs + 5;
    return c;
  }

  DType dtype_;
  Layout layout_;
  std::size_t count_ = 0;
};

/// The parameters of a test over all tables: 4 dtypes x 7 layouts of 3,072 cases each.
using TableParam = std::tuple<DType, Layout>;
inline auto all_tables() {
  return testing::Combine(
      testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16),
      testing::Values(Layout::kContiguous, Layout::kRank3, Layout::kHeadsFirst, Layout::kPackedQkv,
                      Layout::kHeadwiseQkv, Layout::kInnerStride2, Layout::kBackwards));
}
inline std::string name_of_table(const testing::TestParamInfo<TableParam>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" +
         std::string(name_of(std::get<1>(info.param)));
}

}  // namespace rotary
