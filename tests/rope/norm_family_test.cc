// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every combination of norm, scope, order, rotation, rounding, type, pairing and placement against
// the chain of one step after the other, bit for bit; LayerNorm also against float64; gradients
// against differences of float64.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rope/norm_testing.h"
#include "rope/on_every_target.h"
#include "rope/rejects.h"
#include "rotary/norm.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::norm_family_test {
namespace {

constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kHeads = 3;

/// Where the elements lie.
enum class Placement : std::uint8_t { kInPlace, kApart, kPacked, kSpaced };

struct NormCase {
  NormKind kind;
  NormScope scope;
  NormOrder order;
  NormRotation rotation;
  NormRounding rounding;
  DType type;
  Pairing pairing;
  Placement placement;
  std::int64_t head_dim;

  HeadNorm norm() const {
    return {.kind = kind,
            .eps = 1e-5,
            .rounding = rounding,
            .scope = scope,
            .order = order,
            .rotation = rotation};
  }
  std::string name() const {
    return "kind " + std::to_string(static_cast<int>(kind)) + ", scope " +
           std::to_string(static_cast<int>(scope)) + ", order " +
           std::to_string(static_cast<int>(order)) + ", rotation " +
           std::to_string(static_cast<int>(rotation)) + ", rounding " +
           std::to_string(static_cast<int>(rounding)) + ", " + std::string(name_of(type)) +
           ", pairing " + std::to_string(static_cast<int>(pairing)) + ", placement " +
           std::to_string(static_cast<int>(placement)) + ", head_dim " + std::to_string(head_dim);
  }
};

Rope rope_of(const NormCase& c) {
  // Partial, for heads of 72: the slice begins at an odd element.
  const std::int64_t rotary_dim = c.head_dim == 72 ? 52 : c.head_dim;
  return Rope(
      make_frequencies({.rotary_dim = rotary_dim, .theta = 1e4}),
      {.head_dim = c.head_dim, .rotary_offset = c.head_dim == 72 ? 3 : 0, .pairing = c.pairing});
}

void turn(const Rope& rope, const NormCase& c, NormMemory& x) {
  const TensorView view = x.heads(kTokens, kHeads, c.head_dim);
  const Positions at = Positions::range(70'000);
  c.rotation == NormRotation::kForward ? rope.rotate(view, at) : rope.unrotate(view, at);
}

NormMemory in_type(const NormMemory& x, DType type) {
  NormMemory to(type, x.size());
  for (std::int64_t i = 0; i < x.size(); ++i) to.set(i, x.get(i));
  return to;
}

/// One step after the other, in the type in which the case computes between them.
NormMemory chain(const Rope& rope, const NormCase& c, const NormMemory& x, const NormMemory& weight,
                 const NormMemory* bias) {
  const DType between = c.rounding == NormRounding::kFloat32 ? DType::kFloat32 : c.type;
  const std::int64_t size = c.scope == NormScope::kHead ? c.head_dim : kHeads * c.head_dim;
  if (c.order == NormOrder::kBeforeRotation) {
    NormMemory normed(between, x.size());
    norm_to(x, &weight, bias, c.norm(), size, normed);
    turn(rope, c, normed);
    return in_type(normed, c.type);
  }
  NormMemory turned = in_type(x, between);
  turn(rope, c, turned);
  NormMemory normed(c.type, x.size());
  norm_to(turned, &weight, bias, c.norm(), size, normed);
  return normed;
}

/// The result of norm_rotate, whatever the placement.
NormMemory fused(const Rope& rope, const NormCase& c, const NormMemory& x, NormMemory weight,
                 NormMemory* bias) {
  const std::int64_t step = c.placement == Placement::kSpaced ? 2 : 1;
  const std::int64_t width = c.placement == Placement::kPacked ? 2 * kHeads : kHeads;
  NormMemory from(c.type, kTokens * width * c.head_dim * step);
  NormMemory to = from;
  const auto index = [&](std::int64_t i) {
    const std::int64_t token = i / (kHeads * c.head_dim);
    return (token * width * c.head_dim + i % (kHeads * c.head_dim)) * step;
  };
  for (std::int64_t i = 0; i < x.size(); ++i) from.set(index(i), x.get(i));
  const auto view_of = [&](NormMemory& memory) {
    TensorView view = memory.heads(kTokens, width, c.head_dim);
    view.shape[1] = kHeads;
    for (std::size_t d = 0; d < 3; ++d) view.strides[d] *= step;
    view.strides[2] = step;
    return view;
  };
  const bool in_place = c.placement == Placement::kInPlace || c.placement == Placement::kPacked;
  const TensorView in = view_of(from);
  const Operand operand = in_place ? Operand(in) : Operand(in, view_of(to));
  rope.norm_rotate({{operand, weight.row(), bias != nullptr ? bias->row() : ConstTensorView{}}},
                   c.norm(), Positions::range(70'000));
  NormMemory result(c.type, x.size());
  for (std::int64_t i = 0; i < x.size(); ++i) {
    result.set(i, (in_place ? from : to).get(index(i)));
  }
  return result;
}

template <typename Call>
void for_all_cases(const Call& call) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus, NormKind::kLayer}) {
    for (const NormScope scope : {NormScope::kHead, NormScope::kAllHeads}) {
      for (const NormOrder order : {NormOrder::kBeforeRotation, NormOrder::kAfterRotation}) {
        for (const NormRotation rotation : {NormRotation::kForward, NormRotation::kInverse}) {
          for (const NormRounding rounding :
               {NormRounding::kTensor, NormRounding::kFloat32, NormRounding::kEveryStep}) {
            if (rounding == NormRounding::kEveryStep && kind != NormKind::kRms) continue;
            for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
              for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
                for (const Placement placement : {Placement::kInPlace, Placement::kApart,
                                                  Placement::kPacked, Placement::kSpaced}) {
                  for (const std::int64_t head_dim : {64, 72, 80}) {
                    call(NormCase{kind, scope, order, rotation, rounding, type, pairing, placement,
                                  head_dim});
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(NormFamily, HasTheBitsOfTheChain) {
  for_all_cases([](const NormCase& c) {
    SCOPED_TRACE(c.name());
    const Rope rope = rope_of(c);
    const std::int64_t size = c.scope == NormScope::kHead ? c.head_dim : kHeads * c.head_dim;
    const NormMemory x = NormMemory::random(c.type, kTokens * kHeads * c.head_dim, 1, 0.5f);
    const NormMemory weight = NormMemory::random(c.type, size, 2);
    NormMemory bias = NormMemory::random(DType::kFloat32, size, 3);
    NormMemory* const added = c.kind == NormKind::kLayer ? &bias : nullptr;
    EXPECT_EQ(fused(rope, c, x, weight, added).bytes(), chain(rope, c, x, weight, added).bytes());
  });
}

TEST(NormFamily, LongHeadsOnEveryTarget) {
  on_every_target([](std::string_view) {
    for (const std::int64_t head_dim : {96, 256, 512}) {
      for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        for (const auto& [kind, rounding] : {std::pair(NormKind::kRms, NormRounding::kTensor),
                                             std::pair(NormKind::kRms, NormRounding::kEveryStep),
                                             std::pair(NormKind::kLayer, NormRounding::kTensor)}) {
          const NormCase c{kind,
                           NormScope::kHead,
                           NormOrder::kBeforeRotation,
                           NormRotation::kForward,
                           rounding,
                           type,
                           head_dim == 256 ? Pairing::kInterleaved : Pairing::kHalf,
                           Placement::kApart,
                           head_dim};
          SCOPED_TRACE(c.name());
          const Rope rope = rope_of(c);
          const NormMemory x = NormMemory::random(type, kTokens * kHeads * head_dim, 4, 0.5f);
          const NormMemory weight = NormMemory::random(type, head_dim, 5);
          EXPECT_EQ(fused(rope, c, x, weight, nullptr).bytes(),
                    chain(rope, c, x, weight, nullptr).bytes());
        }
      }
    }
  });
}

TEST(NormFamily, RejectsEveryStepOfOtherNorms) {
  NormMemory x = NormMemory::random(DType::kBFloat16, kTokens * kHeads * 8, 6);
  const Rope rope(make_frequencies({.rotary_dim = 8, .theta = 1e4}),
                  {.head_dim = 8, .pairing = Pairing::kHalf});
  for (const NormKind kind : {NormKind::kRmsOnePlus, NormKind::kLayer}) {
    const HeadNorm norm{.kind = kind, .rounding = NormRounding::kEveryStep};
    expect_rejected(
        [&] { rope.norm_rotate({{x.heads(kTokens, kHeads, 8)}}, norm, Positions::range()); },
        "norm_rotate", "kEveryStep is for NormKind::kRms only");
  }
}

TEST(NormFamily, LayerNormIsCloseToFloat64) {
  constexpr std::int64_t kHeadDim = 128;
  NormMemory x = NormMemory::random(DType::kFloat32, kTokens * kHeads * kHeadDim, 6, 3.0f);
  NormMemory weight = NormMemory::random(DType::kFloat32, kHeadDim, 7);
  NormMemory bias = NormMemory::random(DType::kFloat32, kHeadDim, 8);
  const NormMemory before = x;
  const Rope rope(make_frequencies({.rotary_dim = 2, .theta = 1e4}),
                  {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  rope.norm_rotate({{x.heads(kTokens, kHeads, kHeadDim), weight.row(), bias.row()}},
                   {.kind = NormKind::kLayer}, Positions::at(0));  // rotates by nothing
  for (std::int64_t h = 0; h < kTokens * kHeads; ++h) {
    double mean = 0.0;
    double square = 0.0;
    for (std::int64_t i = 0; i < kHeadDim; ++i) mean += before.get(h * kHeadDim + i) / 128.0;
    for (std::int64_t i = 0; i < kHeadDim; ++i) {
      square += std::pow(before.get(h * kHeadDim + i) - mean, 2) / 128.0;
    }
    for (std::int64_t i = 0; i < kHeadDim; ++i) {
      const double n = (before.get(h * kHeadDim + i) - mean) / std::sqrt(square + 1e-6);
      // Six roundings, of values up to 4 before the weight: 2^-24 * 4 * 6 is 1.5e-6.
      EXPECT_NEAR(x.get(h * kHeadDim + i), n * weight.get(i) + bias.get(i),
                  1.5e-6 * (1.0 + std::fabs(weight.get(i))) + 1e-6);
    }
  }
}

TEST(NormFamily, TablesRotateAsTheirRope) {
  constexpr std::int64_t kHeadDim = 64;
  const NormCase c{NormKind::kRms,         NormScope::kHead,      NormOrder::kBeforeRotation,
                   NormRotation::kForward, NormRounding::kTensor, DType::kBFloat16,
                   Pairing::kHalf,         Placement::kInPlace,   kHeadDim};
  const Rope rope = rope_of(c);
  std::vector<float> cos(kTokens * kHeadDim / 2);
  std::vector<float> sin(cos.size());
  const auto table_of = [](std::vector<float>& x) {
    return TensorView::contiguous(x.data(), DType::kFloat32, {kTokens, kHeadDim / 2});
  };
  rope.cos_sin(table_of(cos), table_of(sin), Positions::range(70'000));
  const TableRope table({table_of(cos), table_of(sin)}, rope.layout(), TableWidth::kPairs);
  for (const NormRotation rotation : {NormRotation::kForward, NormRotation::kInverse}) {
    HeadNorm norm = c.norm();
    norm.rotation = rotation;
    NormMemory x = NormMemory::random(c.type, kTokens * kHeads * kHeadDim, 9);
    NormMemory y = x;
    NormMemory weight = NormMemory::random(c.type, kHeadDim, 10);
    rope.norm_rotate({{x.heads(kTokens, kHeads, kHeadDim), weight.row()}}, norm,
                     Positions::range(70'000));
    const NormOperand operand(y.heads(kTokens, kHeads, kHeadDim), weight.row());
    table.norm_rotate({&operand, 1}, norm);
    // 1 / |z|^2 is rounded in a table, and 1 in a rope.
    for (std::int64_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x.get(i), y.get(i), rotation == NormRotation::kForward ? 0.0 : 0.05);
    }
  }
  NormMemory x = NormMemory::random(c.type, kTokens * kHeads * kHeadDim, 11);
  const NormMemory before = x;
  const NormOperand operand(x.heads(kTokens, kHeads, kHeadDim));
  expect_rejected([&] { table.norm_rotate({&operand, 1}, {}, Positions::range(1)); }, "norm_rotate",
                  "positions must be rows of the table");
  EXPECT_EQ(x.bytes(), before.bytes());
}

// ---- Gradients ----------------------------------------------------------------------------------

/// sum of norm_rotate(x) * g in float64, without its rotation, which the caller has undone.
double loss(const std::vector<double>& x, const std::vector<double>& w,
            const std::vector<double>& b, const std::vector<double>& g, const HeadNorm& norm) {
  const std::size_t n = w.size();
  double sum = 0.0;
  for (std::size_t first = 0; first < x.size(); first += n) {
    double mean = 0.0;
    double square = 0.0;
    if (norm.kind == NormKind::kLayer) {
      for (std::size_t i = 0; i < n; ++i) mean += x[first + i] / static_cast<double>(n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      square += std::pow(x[first + i] - mean, 2) / static_cast<double>(n);
    }
    const double scale = 1.0 / std::sqrt(square + norm.eps);
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = norm.kind == NormKind::kRmsOnePlus ? 1.0 + w[i] : w[i];
      sum += ((x[first + i] - mean) * scale * factor + b[i]) * g[first + i];
    }
  }
  return sum;
}

std::vector<double> doubles_of(const NormMemory& x) {
  std::vector<double> to;
  for (std::int64_t i = 0; i < x.size(); ++i) to.push_back(static_cast<double>(x.get(i)));
  return to;
}

TEST(NormFamily, GradientsAreDifferences) {
  constexpr std::int64_t kHeadDim = 12;
  constexpr double kStep = 1e-4;
  const Rope rope(make_frequencies({.rotary_dim = 8, .theta = 1e4}),
                  {.head_dim = kHeadDim, .rotary_offset = 2, .pairing = Pairing::kHalf});
  for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus, NormKind::kLayer}) {
    for (const NormScope scope : {NormScope::kHead, NormScope::kAllHeads}) {
      const HeadNorm norm{.kind = kind, .eps = 1e-3, .scope = scope};
      const std::int64_t size = scope == NormScope::kHead ? kHeadDim : kHeads * kHeadDim;
      const std::int64_t all = kTokens * kHeads * kHeadDim;
      NormMemory x = NormMemory::random(DType::kFloat32, all, 12, 0.5f);
      NormMemory g = NormMemory::random(DType::kFloat32, all, 13);
      NormMemory weight = NormMemory::random(DType::kFloat32, size, 14);
      NormMemory got(DType::kFloat32, all);
      std::vector<double> grad_weight(static_cast<std::size_t>(size));
      std::vector<double> grad_bias(static_cast<std::size_t>(size));
      const NormGradientOperand operand{.in = x.heads(kTokens, kHeads, kHeadDim),
                                        .grad_out = g.heads(kTokens, kHeads, kHeadDim),
                                        .grad_in = got.heads(kTokens, kHeads, kHeadDim),
                                        .weight = weight.row(),
                                        .grad_weight = grad_weight,
                                        .grad_bias = grad_bias};
      rope.norm_gradient({&operand, 1}, norm, Positions::range(9));
      // The rotation is orthogonal: the gradient before it is the one after it, rotated back.
      rope.adjoint(g.heads(kTokens, kHeads, kHeadDim), Positions::range(9));
      const std::vector<double> turned = doubles_of(g);
      std::vector<double> xs = doubles_of(x);
      std::vector<double> ws = doubles_of(weight);
      std::vector<double> bs(ws.size());
      const auto difference = [&](double& value) {
        const double kept = value;
        value = kept + kStep;
        const double above = loss(xs, ws, bs, turned, norm);
        value = kept - kStep;
        const double below = loss(xs, ws, bs, turned, norm);
        value = kept;
        return (above - below) / (2.0 * kStep);
      };
      for (std::size_t i = 0; i < xs.size(); ++i) {
        EXPECT_NEAR(got.get(static_cast<std::int64_t>(i)), difference(xs[i]), 2e-4);
      }
      for (std::size_t i = 0; i < ws.size(); ++i) {
        EXPECT_NEAR(grad_weight[i], difference(ws[i]), 2e-4);
        EXPECT_NEAR(grad_bias[i], difference(bs[i]), 2e-4);
      }
    }
  }
}

TEST(NormFamily, GradientsDoNotDependOnThreads) {
  constexpr std::int64_t kHeadDim = 64;
  constexpr std::int64_t kMany = 1500;
  NormMemory x = NormMemory::random(DType::kBFloat16, kMany * kHeads * kHeadDim, 15);
  NormMemory g = NormMemory::random(DType::kBFloat16, kMany * kHeads * kHeadDim, 16);
  NormMemory weight = NormMemory::random(DType::kFloat32, kHeadDim, 17);
  const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
                  {.head_dim = kHeadDim, .pairing = Pairing::kInterleaved});
  std::vector<std::vector<double>> sums;
  std::vector<std::vector<unsigned char>> grads;
  for (const int threads : {1, 2, 5}) {
    NormMemory to(DType::kBFloat16, x.size());
    std::vector<double> sum(kHeadDim);
    const NormGradientOperand operand{.in = x.heads(kMany, kHeads, kHeadDim),
                                      .grad_out = g.heads(kMany, kHeads, kHeadDim),
                                      .grad_in = to.heads(kMany, kHeads, kHeadDim),
                                      .weight = weight.row(),
                                      .grad_weight = sum};
    rope.with_threads({.count = threads}).norm_gradient({&operand, 1}, {}, Positions::range());
    sums.push_back(sum);
    grads.push_back(to.bytes());
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(grads[0], grads[1]);
  EXPECT_EQ(grads[0], grads[2]);
}

TEST(NormFamily, GradientRejectsBadArguments) {
  constexpr std::int64_t kHeadDim = 16;
  NormMemory x = NormMemory::random(DType::kFloat32, kTokens * kHeads * kHeadDim, 18);
  NormMemory g = x;
  const NormMemory before = g;
  std::vector<double> sums(kHeadDim);
  const Rope rope(make_frequencies({.rotary_dim = kHeadDim, .theta = 1e4}),
                  {.head_dim = kHeadDim, .pairing = Pairing::kHalf});
  const TensorView in = x.heads(kTokens, kHeads, kHeadDim);
  const TensorView grad = g.heads(kTokens, kHeads, kHeadDim);
  const auto rejected = [&](const NormGradientOperand& operand, const HeadNorm& norm,
                            const char* rule) {
    expect_rejected([&] { rope.norm_gradient({&operand, 1}, norm, Positions::range()); },
                    "norm_gradient", rule);
  };
  const NormGradientOperand good{.in = in, .grad_out = grad, .grad_in = grad};
  rejected(good, {.kind = NormKind::kNone}, "there must be a norm before a forward rotation");
  rejected(good, {.order = NormOrder::kAfterRotation}, "before a forward rotation");
  rejected(good, {.eps = -1.0}, "eps must be finite");
  rejected({.in = in, .grad_out = grad, .grad_in = in}, {}, "share memory");
  rejected({.in = in, .grad_out = grad, .grad_weight = std::span(sums).first(3)}, {},
           "must have 16 entries, got 3");
  EXPECT_EQ(g.bytes(), before.bytes());
}

}  // namespace
}  // namespace rotary::norm_family_test
