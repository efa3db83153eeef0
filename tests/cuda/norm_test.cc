// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::norm_rotate on the GPU, bit for bit against the CPU: every combination of norm, scope,
// order, rotation, rounding, type, pairings, placement and head_dim. Rope::norm_gradient: gradients
// of weights and inputs against the CPU up to the order of sums, and the same bits in every run.

#include "rotary/norm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/against_cpu.h"
#include "cuda/device_memory.h"
#include "cuda/tables.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
/// Of results in the order of a warp, whose reciprocal root is the device's.
#ifdef ROTARY_EMULATES_CUDA
constexpr double kWarpUlps = 0.0;
#else
constexpr double kWarpUlps = 8.0;
#endif
constexpr NormKind kKinds[] = {NormKind::kRms, NormKind::kRmsOnePlus, NormKind::kLayer};

/// The elements of a tensor as a row.
ConstTensorView row_of(const TensorView& x) {
  return ConstTensorView::contiguous(x.data, x.dtype, {x.num_elements()}, x.device);
}

struct NormCase {
  HeadNorm norm{};
  DType type = DType::kBFloat16;
  DType weight_type = DType::kFloat32;
  Layout layout = Layout::kContiguous;
  std::int64_t misaligned = 0;
  std::int64_t batch = 2;
  std::int64_t tokens = 3;
  bool in_place = false;
  std::vector<std::int64_t> heads = {5, 2};  // of each tensor

  std::string name() const {
    std::string text;
    for (const int choice :
         {static_cast<int>(norm.kind), static_cast<int>(norm.scope), static_cast<int>(norm.order),
          static_cast<int>(norm.rotation), static_cast<int>(norm.rounding), norm.sum_lanes}) {
      text += std::to_string(choice) + " ";
    }
    return text + std::string(name_of(type)) + " " + std::string(name_of(layout)) + " misaligned " +
           std::to_string(misaligned) + (in_place ? " in place" : "");
  }
};

/// Each tensor with its result, weights and biases.
Tensors tensors_of(const NormCase& c, std::int64_t head_dim) {
  Tensors all;
  unsigned seed = 7;
  for (const std::int64_t heads : c.heads) {
    const Sizes sizes{c.batch, c.tokens, heads, head_dim};
    all.push_back(std::make_unique<PlacedTensor>(c.layout, c.type, sizes, ++seed, c.misaligned));
    all.push_back(
        std::make_unique<PlacedTensor>(Layout::kContiguous, c.type, sizes, ++seed, c.misaligned));
    const std::int64_t size = c.norm.scope == NormScope::kHead ? head_dim : heads * head_dim;
    for (int i = 0; i < 2; ++i) {
      all.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, c.weight_type,
                                                   Sizes{1, 1, 1, size}, ++seed, 0));
    }
  }
  return all;
}

/// norm_rotate() of a rope or of a table.
using NormRotate = std::function<void(std::span<const NormOperand>, const Positions&)>;

Call norm_call(const NormCase& c, const NormRotate& rotate) {
  return [&c, &rotate](const Views& v, const Positions& positions) {
    const auto operand = [&](std::size_t first) {
      const Operand x = c.in_place ? Operand(v[first]) : Operand(v[first], v[first + 1]);
      const bool has_bias = c.norm.kind == NormKind::kLayer;
      return NormOperand(x, row_of(v[first + 2]),
                         has_bias ? row_of(v[first + 3]) : ConstTensorView{});
    };
    std::vector<NormOperand> operands;
    for (std::size_t i = 0; i < c.heads.size(); ++i) operands.push_back(operand(4 * i));
    rotate(operands, positions);
  };
}

double ulps_of(const NormCase& c) { return c.norm.sum_lanes == 32 ? kWarpUlps : 0.0; }

void expect_cpu_bits(const Rope& rope, const NormCase& c,
                     const Positions& positions = Positions::range(70'000)) {
  const auto rotate = [&](std::span<const NormOperand> operands, const Positions& at) {
    rope.norm_rotate(operands, c.norm, at);
  };
  EXPECT_TRUE(matches_cpu(tensors_of(c, rope.layout().head_dim), positions, norm_call(c, rotate),
                          ulps_of(c)))
      << c.name() << " head_dim " << rope.layout().head_dim;
}

/// By the rows of a table: row t for token t, or of the positions.
void expect_cpu_bits_by_table(const Ropes& ropes, const HeadLayout& layout, const NormCase& c,
                              const Positions* positions = nullptr) {
  const auto rotate = [&](std::span<const NormOperand> operands, const Positions& at) {
    const TableRope& rope = ropes.of(operands.front().tensors.out);
    positions == nullptr ? rope.norm_rotate(operands, c.norm)
                         : rope.norm_rotate(operands, c.norm, at);
  };
  EXPECT_TRUE(matches_cpu(tensors_of(c, layout.head_dim),
                          positions == nullptr ? Positions::range() : *positions,
                          norm_call(c, rotate), ulps_of(c)))
      << "by a table, " << c.name() << " head_dim " << layout.head_dim;
}

Rope make_rope(std::int64_t head_dim, std::int64_t rotary_dim, std::int64_t offset, Pairing pairing,
               std::optional<Pairing> output = std::nullopt) {
  return Rope(make_frequencies({.rotary_dim = rotary_dim, .theta = 1e4}),
              {.head_dim = head_dim,
               .rotary_offset = offset,
               .pairing = pairing,
               .output_pairing = output});
}

TEST(CudaNorm, EveryNormHasTheBitsOfTheCpu) {
  const std::array ropes = {make_rope(64, 64, 0, Pairing::kHalf),
                            make_rope(64, 32, 16, Pairing::kInterleaved),
                            make_rope(72, 52, 3, Pairing::kHalf),
                            make_rope(64, 64, 0, Pairing::kHalf, Pairing::kInterleaved)};
  for (const Rope& rope : ropes) {
    for (const DType type : kTypes) {
      for (const NormKind kind : kKinds) {
        for (const NormScope scope : {NormScope::kHead, NormScope::kAllHeads}) {
          for (const NormOrder order : {NormOrder::kBeforeRotation, NormOrder::kAfterRotation}) {
            for (const NormRotation rotation : {NormRotation::kForward, NormRotation::kInverse}) {
              for (const NormRounding rounding :
                   {NormRounding::kTensor, NormRounding::kFloat32, NormRounding::kEveryStep}) {
                if (rounding == NormRounding::kEveryStep && kind != NormKind::kRms) continue;
                for (const bool in_place : {false, true}) {
                  expect_cpu_bits(rope, {.norm = {.kind = kind,
                                                  .eps = 1e-5,
                                                  .rounding = rounding,
                                                  .scope = scope,
                                                  .order = order,
                                                  .rotation = rotation},
                                         .type = type,
                                         .in_place = in_place});
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(CudaNorm, EveryHeadDimAndOrderOfSums) {
  struct Size {
    std::int64_t head_dim, rotary_dim, offset;
  };
  for (const Size& size :
       {Size{16, 16, 0}, Size{32, 32, 0}, Size{64, 64, 0}, Size{64, 16, 48}, Size{72, 72, 0},
        Size{72, 64, 8}, Size{80, 80, 0}, Size{96, 96, 0}, Size{96, 32, 0}, Size{128, 128, 0},
        Size{128, 64, 64}, Size{192, 128, 64}, Size{256, 256, 0}, Size{256, 64, 0},
        Size{320, 256, 32}, Size{512, 256, 128}, Size{512, 512, 0}, Size{1024, 64, 0}}) {
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
      const Rope rope = make_rope(size.head_dim, size.rotary_dim, size.offset, pairing);
      for (const DType type : kTypes) {
        for (const int lanes : {4, 8, 16, 32}) {
          for (const NormKind kind : kKinds) {
            expect_cpu_bits(
                rope, {.norm = {.kind = kind, .sum_lanes = lanes}, .type = type, .tokens = 2});
          }
        }
      }
    }
  }
}

TEST(CudaNorm, EveryPlacementAndTypeOfWeights) {
  const Rope rope = make_rope(128, 128, 0, Pairing::kHalf);
  for (const Layout layout :
       {Layout::kContiguous, Layout::kRank3, Layout::kHeadsFirst, Layout::kPackedQkv,
        Layout::kHeadwiseQkv, Layout::kInnerStride2, Layout::kBackwards}) {
    for (const std::int64_t misaligned : {0, 1}) {
      for (const DType weight_type : kTypes) {
        for (const bool in_place : {false, true}) {
          expect_cpu_bits(rope, {.norm = {.sum_lanes = 32},
                                 .weight_type = weight_type,
                                 .layout = layout,
                                 .misaligned = misaligned,
                                 .batch = layout == Layout::kRank3 ? 1 : 2,
                                 .in_place = in_place});
          expect_cpu_bits(rope, {.weight_type = weight_type,
                                 .layout = layout,
                                 .misaligned = misaligned,
                                 .batch = layout == Layout::kRank3 ? 1 : 2,
                                 .in_place = in_place});
        }
      }
    }
  }
}

TEST(CudaNorm, EverySourceOfAnglesAndPositions) {
  const std::vector<std::int64_t> ids = {5, 1'000'003, -7, 0, 2, 99};
  const std::vector<double> reals = {0.5, 1e4, -3.25, 0.0, 2.0, 7.75};
  const auto integers =
      Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, 2, 3}));
  const auto numbers =
      Positions::ids(ConstTensorView::contiguous(reals.data(), DType::kFloat64, {1, 2, 3}));
  const Rope exact = make_rope(64, 64, 0, Pairing::kHalf);
  const Rope reference(make_frequencies({.rotary_dim = 64, .theta = 1e4}),
                       {.head_dim = 64, .pairing = Pairing::kInterleaved},
                       {.precision = Precision::kReference});
  for (const DType type : kTypes) {
    expect_cpu_bits(exact, {.type = type}, integers);
    expect_cpu_bits(exact, {.norm = {.sum_lanes = 32}, .type = type, .tokens = 3}, integers);
    expect_cpu_bits(exact, {.type = type}, numbers);
    expect_cpu_bits(reference, {.type = type}, integers);
  }
  // A decoding step: a token in each of many batch rows, with a position of its own.
  expect_cpu_bits(
      exact, {.batch = 6, .tokens = 1},
      Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, 6, 1})));
}

// As models of transformers have it: a table for all or for each batch row, of either width, with
// the weight rounded apart.
void expect_cpu_bits_by_tables(std::int64_t head_dim, std::int64_t tokens, Pairing pairing,
                               DType type) {
  const HeadLayout layout{.head_dim = head_dim, .pairing = pairing};
  for (const std::int64_t batch : {1, 2}) {
    const bool is_twice = batch == 1;
    const Table table(is_twice ? type : DType::kFloat32, batch, tokens,
                      is_twice ? head_dim : head_dim / 2, TableLayout::kContiguous);
    const Ropes ropes(table.host(), layout,
                      is_twice ? TableWidth::kTwicePairs : TableWidth::kPairs);
    for (const NormRounding rounding :
         {NormRounding::kTensor, NormRounding::kFloat32, NormRounding::kEveryStep}) {
      for (const int lanes : {4, 32}) {
        expect_cpu_bits_by_table(ropes, layout,
                                 {.norm = {.rounding = rounding, .sum_lanes = lanes},
                                  .type = type,
                                  .weight_type = type,
                                  .tokens = tokens});
      }
    }
  }
}

TEST(CudaNorm, ByATable) {
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    for (const DType type : kTypes) {
      for (const std::int64_t head_dim : {32, 64, 72, 128, 256, 512}) {
        expect_cpu_bits_by_tables(head_dim, 5, pairing, type);
      }
      expect_cpu_bits_by_tables(128, 1, pairing, type);
    }
  }
  // So many tokens that a warp takes all heads of one.
  const HeadLayout layout{.head_dim = 64, .pairing = Pairing::kHalf};
  const Table table(DType::kFloat32, 0, 15'001, 32, TableLayout::kContiguous);
  expect_cpu_bits_by_table(Ropes(table.host(), layout, TableWidth::kPairs), layout,
                           {.norm = {.rounding = NormRounding::kEveryStep, .sum_lanes = 32},
                            .weight_type = DType::kBFloat16,
                            .tokens = 15'001});
}

// Rows by position, some of them outside of the table; other layouts of it; three tensors.
TEST(CudaNorm, ByRowsOfATable) {
  constexpr std::int64_t kRows = 50;
  const std::vector<std::int64_t> ids = {49, 0, 7, 7, 1, 30};
  const std::vector<std::int64_t> boundaries = {0, 2, 6};
  const std::vector<std::int64_t> starts = {44, 10};
  const std::vector<Positions> all = {Positions::ids(ids), Positions::range(44), Positions::at(49),
                                      Positions::packed(boundaries, starts)};
  const HeadLayout layout{.head_dim = 64, .pairing = Pairing::kHalf};
  for (const DType table_type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const TableLayout placed :
         {TableLayout::kContiguous, TableLayout::kFused, TableLayout::kStrided}) {
      const Table table(table_type, 0, kRows, 32, placed);
      const Ropes ropes(table.host(), layout, TableWidth::kPairs);
      for (const Positions& positions : all) {
        for (const NormRotation rotation : {NormRotation::kForward, NormRotation::kInverse}) {
          expect_cpu_bits_by_table(ropes, layout,
                                   {.norm = {.sum_lanes = 32, .rotation = rotation},
                                    .batch = 1,
                                    .tokens = 6,
                                    .in_place = true,
                                    .heads = {9, 2, 3}},
                                   &positions);
        }
      }
    }
  }
}

TEST(CudaNorm, TheOrderOfAWarp) {
  for (const std::int64_t head_dim : {16, 32, 64, 128, 256, 512, 72}) {
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
      const Rope rope = make_rope(head_dim, head_dim, 0, pairing);
      for (const DType type : kTypes) {
        for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus}) {
          for (const DType weight_type : {type, DType::kFloat32}) {
            expect_cpu_bits(rope, {.norm = {.kind = kind, .sum_lanes = 32},
                                   .type = type,
                                   .weight_type = weight_type,
                                   .tokens = 11});
          }
        }
      }
    }
  }
  // Enough tokens for blocks with several of them, and heads of several blocks.
  expect_cpu_bits(make_rope(128, 128, 0, Pairing::kHalf),
                  {.norm = {.sum_lanes = 32}, .batch = 3, .tokens = 7001});
}

// Three tensors with norms: in decoding steps, and so many tokens (30,000 in all batch rows and
// more are not split) that a warp takes the heads of all tensors, one after the other.
TEST(CudaNorm, ThreeTensors) {
  const Rope rope = make_rope(64, 64, 0, Pairing::kHalf);
  for (const DType weight_type : {DType::kBFloat16, DType::kFloat32}) {
    for (const std::int64_t tokens : {7, 70, 7'501}) {
      expect_cpu_bits(rope, {.norm = {.sum_lanes = 32},
                             .type = DType::kBFloat16,
                             .weight_type = weight_type,
                             .tokens = tokens,
                             .heads = {9, 2, 3}});
    }
  }
}

// Heads that do not fill the last warps of a token, where warps of a block share the weights: in
// decoding steps, and in blocks of two heads in each thread.
TEST(CudaNorm, WarpsWithoutHeads) {
  struct Size {
    std::int64_t tokens;
    std::vector<std::int64_t> heads;
  };
  const Rope rope = make_rope(128, 128, 0, Pairing::kHalf);
  for (const Size& size : {Size{20, {40, 8}}, Size{20, {21}}, Size{900, {32, 4}}, Size{900, {9}}}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      expect_cpu_bits(
          rope,
          {.norm = {.sum_lanes = 32}, .type = type, .tokens = size.tokens, .heads = size.heads});
    }
  }
}

// Blocks of several heads of each thread.
TEST(CudaNorm, ManyTokens) {
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    const Rope rope = make_rope(64, 64, 0, pairing);
    expect_cpu_bits(rope, {.norm = {.sum_lanes = 32},
                           .type = DType::kBFloat16,
                           .weight_type = DType::kBFloat16,
                           .batch = 2,
                           .tokens = 7'501});
  }
}

TEST(CudaNorm, RejectsFloat64AndOutputsOfAnotherType) {
  const Rope rope = make_rope(64, 64, 0, Pairing::kHalf);
  const DeviceMemory memory(1 << 16);
  const auto view = [&](DType type) {
    return TensorView::contiguous(memory.data(), type, {1, 2, 64}, kGpu);
  };
  EXPECT_THROW(rope.norm_rotate({Operand(view(DType::kFloat64))}, {}, Positions::range()),
               std::invalid_argument);
  const TensorView narrow =
      TensorView::contiguous(memory.data(1 << 12), DType::kFloat8E4M3, {1, 2, 64}, kGpu);
  EXPECT_THROW(rope.norm_rotate({Operand(view(DType::kBFloat16), narrow)}, {}, Positions::range()),
               std::invalid_argument);
  std::vector<float> on_host(64);
  EXPECT_THROW(
      rope.norm_rotate({{view(DType::kBFloat16),
                         ConstTensorView::contiguous(on_host.data(), DType::kFloat32, {64})}},
                       {}, Positions::range()),
      std::invalid_argument);
}

// ---- Gradients ----------------------------------------------------------------------------------

struct Gradients {
  reference::Elements q, k;
  std::vector<double> weights;  // of q, of k, then biases
};

/// norm_gradient() of a rope or of a table on the GPU, with its workspace, and on the CPU.
struct GradientCalls {
  std::function<std::size_t(std::span<const NormGradientOperand>)> workspace;
  std::function<void(std::span<const NormGradientOperand>, std::span<std::byte>)> on_gpu;
  std::function<void(std::span<const NormGradientOperand>)> on_cpu;
};

Gradients gradients_on_gpu(const GradientCalls& calls, const NormCase& c, const Tensors& tensors,
                           std::size_t weight_size) {
  std::vector<std::unique_ptr<DeviceTensor>> copies;
  for (const auto& x : tensors) copies.push_back(std::make_unique<DeviceTensor>(*x));
  const DeviceList<double> sums(std::vector<double>(4 * weight_size, 0.0));
  const auto part = [&](std::size_t i) {
    return sums.span().subspan(i * weight_size, weight_size);
  };
  const bool has_bias = c.norm.kind == NormKind::kLayer;
  std::vector<NormGradientOperand> operands;
  for (const std::size_t first : {0, 3}) {
    const std::size_t k = first / 3;
    operands.push_back({.in = copies[first]->view(),
                        .grad_out = copies[first + 1]->view(),
                        .grad_in = copies[first + 1]->view(),
                        .weight = row_of(copies[first + 2]->view()),
                        .grad_weight = part(k),
                        .grad_bias = has_bias ? part(2 + k) : std::span<double>()});
  }
  const DeviceMemory workspace(calls.workspace(operands));
  calls.on_gpu(operands, {workspace.data(), workspace.size()});
  return {copies[1]->downloaded(), copies[4]->downloaded(), sums.values()};
}

/// Of two tensors; those of weights of all heads have as many heads, so that weights have one size.
void expect_cpu_gradients(const GradientCalls& calls, const NormCase& c, std::int64_t head_dim,
                          double ulps) {
  const auto weight_size =
      static_cast<std::size_t>(c.norm.scope == NormScope::kHead ? head_dim : c.heads[0] * head_dim);
  Tensors tensors;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const bool is_weight = seed % 3 == 0;
    const Sizes sizes = is_weight ? Sizes{1, 1, 1, static_cast<std::int64_t>(weight_size)}
                                  : Sizes{c.batch, c.tokens, c.heads[(seed - 1) / 3], head_dim};
    tensors.push_back(std::make_unique<PlacedTensor>(
        Layout::kContiguous, is_weight ? c.weight_type : c.type, sizes, seed, 0));
  }
  const Gradients first = gradients_on_gpu(calls, c, tensors, weight_size);
  const Gradients again = gradients_on_gpu(calls, c, tensors, weight_size);
  EXPECT_TRUE(first.q == again.q && first.k == again.k && first.weights == again.weights);

  std::vector<double> sums(4 * weight_size);
  std::vector<NormGradientOperand> operands;
  for (const std::size_t i : {0, 3}) {
    const auto part = [&](std::size_t k) {
      return std::span(sums).subspan(k * weight_size, weight_size);
    };
    const bool has_bias = c.norm.kind == NormKind::kLayer;
    operands.push_back({.in = tensors[i]->view(),
                        .grad_out = tensors[i + 1]->view(),
                        .grad_in = tensors[i + 1]->view(),
                        .weight = row_of(tensors[i + 2]->view()),
                        .grad_weight = part(i / 3),
                        .grad_bias = has_bias ? part(2 + i / 3) : std::span<double>()});
  }
  calls.on_cpu(operands);
  // The sums of a norm differ in their order: a few roundings to float32, one to the type.
  EXPECT_TRUE(equal(first.q, tensors[1]->memory(), ulps)) << c.name();
  EXPECT_TRUE(equal(first.k, tensors[4]->memory(), ulps)) << c.name();
  // Those of weights, of terms of both signs, are float32 within a block.
  const double terms = static_cast<double>(c.batch * c.tokens * c.heads[0]);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(first.weights[i], sums[i], 1e-6 * (std::sqrt(terms) + std::fabs(sums[i])))
        << c.name() << " weight " << i;
  }
}

void expect_cpu_gradients(const Rope& rope, const NormCase& c, const Positions& positions) {
  const DevicePositions on_device(positions);
  using List = std::span<const NormGradientOperand>;
  expect_cpu_gradients(
      {.workspace = [&](List x) { return rope.norm_gradient_workspace(x, c.norm); },
       .on_gpu = [&](List x,
                     std::span<std::byte> w) { rope.norm_gradient(x, c.norm, on_device, w); },
       .on_cpu = [&](List x) { rope.norm_gradient(x, c.norm, positions); }},
      c, rope.layout().head_dim, 4.0);
}

/// By row t of the table for token t, whose cos and sin are up to 1.1: gradients, and their
/// roundings, are larger by |z|.
void expect_cpu_gradients_by_table(const Ropes& ropes, const NormCase& c) {
  const TableRope& rope = ropes.on_device();
  using List = std::span<const NormGradientOperand>;
  expect_cpu_gradients(
      {.workspace = [&](List x) { return rope.norm_gradient_workspace(x, c.norm); },
       .on_gpu = [&](List x, std::span<std::byte> w) { rope.norm_gradient(x, c.norm, w); },
       .on_cpu = [&](List x) { ropes.on_host().norm_gradient(x, c.norm); }},
      c, rope.layout().head_dim, 4.0 * 1.6);
}

// The tuned kernel and the general one, where rows are of one table or of one for each batch row.
TEST(CudaNorm, GradientsByATable) {
  struct Size {
    std::int64_t head_dim, tables;
  };
  constexpr std::int64_t kBatch = 3;
  for (const Size& size : {Size{128, 1}, Size{96, kBatch}, Size{72, kBatch}}) {
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
      for (const DType type : kTypes) {
        const Table table(type, size.tables, 23, size.head_dim / 2, TableLayout::kContiguous);
        const Ropes ropes(table.host(), {.head_dim = size.head_dim, .pairing = pairing},
                          TableWidth::kPairs);
        for (const NormKind kind : kKinds) {
          expect_cpu_gradients_by_table(ropes, {.norm = {.kind = kind},
                                                .type = type,
                                                .batch = kBatch,
                                                .tokens = 23,
                                                .heads = {3, 3}});
        }
      }
    }
  }
  // Warps with several tokens, whose next rows are fetched ahead.
  const Table table(DType::kFloat32, 0, 2'501, 64, TableLayout::kContiguous);
  const Ropes ropes(table.host(), {.head_dim = 128, .pairing = Pairing::kHalf}, TableWidth::kPairs);
  expect_cpu_gradients_by_table(ropes, {.batch = 1, .tokens = 2'501, .heads = {9, 2}});
}

TEST(CudaNorm, GradientsMatchTheCpu) {
  for (const Rope& rope :
       {make_rope(64, 64, 0, Pairing::kHalf), make_rope(96, 96, 0, Pairing::kInterleaved),
        make_rope(72, 52, 3, Pairing::kInterleaved),
        make_rope(64, 64, 0, Pairing::kHalf, Pairing::kInterleaved)}) {
    for (const DType type : kTypes) {
      for (const NormKind kind : kKinds) {
        for (const NormScope scope : {NormScope::kHead, NormScope::kAllHeads}) {
          expect_cpu_gradients(rope,
                               {.norm = {.kind = kind, .scope = scope},
                                .type = type,
                                .batch = 3,
                                .tokens = 67,
                                .heads = {3, 3}},
                               Positions::range(123'456));
        }
      }
    }
  }
}

// Several steps of a token and of a warp, and warps that begin and end within a token: more steps
// than are copied ahead.
TEST(CudaNorm, GradientsOfManyTokens) {
  expect_cpu_gradients(make_rope(128, 128, 0, Pairing::kHalf),
                       {.norm = {.kind = NormKind::kRms}, .tokens = 2'501, .heads = {9, 2}},
                       Positions::range(123'456));
}

// Of the other kernel: several tokens in a block.
TEST(CudaNorm, GradientsOfManyTokensElementByElement) {
  expect_cpu_gradients(make_rope(32, 32, 0, Pairing::kHalf),
                       {.norm = {.kind = NormKind::kLayer}, .tokens = 701, .heads = {1, 1}},
                       Positions::range(123'456));
}

TEST(CudaNorm, GradientsOfNoTokensAreZero) {
  const Rope rope = make_rope(64, 64, 0, Pairing::kHalf);
  const DeviceMemory memory(1 << 12);
  const auto empty = TensorView::contiguous(memory.data(), DType::kBFloat16, {0, 2, 64}, kGpu);
  const DeviceList<double> sums(std::vector<double>(64, 5.0));
  const NormGradientOperand operand{.in = empty, .grad_out = empty, .grad_weight = sums.span()};
  rope.norm_gradient({&operand, 1}, {}, Positions::range());
  EXPECT_EQ(sums.values(), std::vector<double>(64, 0.0));
}

}  // namespace
}  // namespace rotary
