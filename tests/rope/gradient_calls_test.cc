// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls of Rope::gradient: the same bits for every form of the call and any threads, no unwanted
// output, and rejected calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "rope/placed_tensor.h"
#include "rope/pools.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::gradient_calls_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr std::int64_t kHeadDim = 24;

Rope make_rope(const AxisMap& axes = OneAxis{}, Precision precision = Precision::kExact) {
  return Rope(make_frequencies({.rotary_dim = 20,
                                .theta = 1e4,
                                .scaling = Yarn{.factor = 4, .original_context = 64},
                                .axes = axes}),
              {.head_dim = kHeadDim,
               .rotary_offset = 1,
               .pairing = Pairing::kHalf,
               .output_pairing = Pairing::kInterleaved},
              {.precision = precision});
}

/// Everything that a call writes.
struct Result {
  std::vector<double> frequencies;
  std::vector<double> positions;
  double scale = 0.0;
  std::vector<std::uint64_t> grad_in;
  friend bool operator==(const Result&, const Result&) = default;
};

/// Tensors for repeated calls.
class Tensors {
 public:
  Tensors(const Sizes& sizes, DType dtype)
      : x_(Layout::kContiguous, dtype, sizes, 1),
        g_(Layout::kHeadsFirst, dtype, sizes, 2),
        grad_in_(Layout::kContiguous, dtype, sizes, 3) {}

  Result result(const Rope& rope, const Positions& positions) const {
    const Frequencies& f = rope.frequencies();
    const std::int64_t axes = positions.same_on_all_axes() ? 1 : f.axes;
    const std::int64_t tokens = x_.sizes().tokens;
    const std::int64_t rows = std::max<std::int64_t>(positions.batch(), 1);
    Result result{std::vector<double>(f.values.size()),
                  std::vector<double>(static_cast<std::size_t>(axes * rows * tokens)),
                  0.0,
                  {}};
    double* data = result.positions.data();
    const TensorView view =
        positions.batch() < 0 ? TensorView::contiguous(data, DType::kFloat64, {axes, tokens})
                              : TensorView::contiguous(data, DType::kFloat64, {axes, rows, tokens});
    const GradientOperand operand{x_.view(), g_.view(), grad_in_.view()};
    rope.gradient(std::span(&operand, 1), positions,
                  {.frequencies = result.frequencies, .positions = view, .scale = &result.scale});
    result.grad_in = grad_in_.bits();
    return result;
  }

 private:
  PlacedTensor x_;
  PlacedTensor g_;
  PlacedTensor grad_in_;
};

Result run(const Rope& rope, const Sizes& sizes, DType dtype, const Positions& positions) {
  return Tensors(sizes, dtype).result(rope, positions);
}

// More tokens than one block, enough for three threads with any type, and not a multiple of blocks.
TEST(GradientCall, SameBitsOnAnyThreads) {
  const std::vector<std::int64_t> first = {5, 0, -77};
  const Rope one = make_rope().with_threads({.count = 1, .run = {}});
  for (const DType dtype : kTypes) {
    const std::int64_t tokens = 1603 / static_cast<std::int64_t>(size_of(dtype));
    const Tensors tensors({.batch = 3, .tokens = tokens, .heads = 4, .head_dim = kHeadDim}, dtype);
    for (const Positions& positions : {Positions::range(3), Positions::range(first)}) {
      const Result expected = tensors.result(one, positions);
      ASSERT_NE(expected.scale, 0.0);
      int most = 0;
      const Rope counting = one.with_threads(
          {.count = 3, .run = [&most](int tasks, const std::function<void(int)>& task) {
             most = std::max(most, tasks);
             run_on_threads(tasks, task);
           }});
      EXPECT_TRUE(tensors.result(counting, positions) == expected) << name_of(dtype);
      EXPECT_EQ(most, 3) << name_of(dtype);
      for (const int count : {2, 3, 8}) {
        EXPECT_TRUE(tensors.result(one.with_threads({.count = count, .run = {}}), positions) ==
                    expected)
            << count << ' ' << name_of(dtype);
      }
      for (const auto& [name, threads] : some_threads()) {
        EXPECT_TRUE(tensors.result(one.with_threads(threads), positions) == expected)
            << name << ' ' << name_of(dtype);
      }
    }
  }
}

// Integer positions give the same bits in every form, and with a cache.
TEST(GradientCall, SameBitsForPositionsInAnyForm) {
  constexpr Sizes kSizes{.batch = 2, .tokens = 7, .heads = 3, .head_dim = kHeadDim};
  std::vector<double> real;
  std::vector<std::int32_t> whole;
  for (std::int32_t t = 0; t < kSizes.tokens; ++t) {
    whole.push_back(131069 + t);
    real.push_back(131069.0 + t);
  }
  const std::vector<std::int64_t> boundaries = {0, 3, kSizes.tokens};
  const std::vector<std::int64_t> starts = {131069, 131072};
  for (const DType dtype : kTypes) {
    for (const Precision precision : {Precision::kExact, Precision::kReference}) {
      const Rope rope = make_rope(OneAxis{}, precision);
      const Result expected = run(rope, kSizes, dtype, Positions::range(131069));
      EXPECT_TRUE(run(rope, kSizes, dtype, Positions::ids(whole)) == expected);
      EXPECT_TRUE(run(rope, kSizes, dtype, Positions::ids(real)) == expected);
      EXPECT_TRUE(run(rope, kSizes, dtype, Positions::packed(boundaries, starts)) == expected);
      const Rope cached(rope.frequencies(), rope.layout(),
                        {.precision = precision, .cache = {CachePolicy::kHybrid, 1 << 17}});
      EXPECT_TRUE(run(cached, kSizes, dtype, Positions::range(131069)) == expected);
    }
  }
}

// The gradient of transformers' angles: to 1e-6 of the terms that of exact ones where both agree.
TEST(GradientCall, ReferenceAngles) {
  constexpr Sizes kSizes{.batch = 1, .tokens = 7, .heads = 3, .head_dim = kHeadDim};
  const Result exact = run(make_rope(), kSizes, DType::kFloat32, Positions::range());
  const Result reference =
      run(make_rope(OneAxis{}, Precision::kReference), kSizes, DType::kFloat32, Positions::range());
  // 7 tokens of 3 heads at positions up to 6; elements below 1, scaled by 1.14: terms below 14.
  for (std::size_t i = 0; i < exact.frequencies.size(); ++i) {
    EXPECT_NEAR(exact.frequencies[i], reference.frequencies[i], 21 * 14 * 1e-6) << i;
  }
  EXPECT_NEAR(exact.scale, reference.scale, 21 * 10 * 2.3 * 1e-6);
}

// grad_in may overwrite grad_out, also with two pairings; each output may be wanted alone.
TEST(GradientCall, WritesOnlyWhatIsWanted) {
  constexpr Sizes kSizes{.batch = 2, .tokens = 70, .heads = 3, .head_dim = kHeadDim};
  const Rope rope = make_rope();
  for (const DType dtype : kTypes) {
    const Result all = run(rope, kSizes, dtype, Positions::range());
    const PlacedTensor x(Layout::kContiguous, dtype, kSizes, 1);
    PlacedTensor g(Layout::kContiguous, dtype, kSizes, 9);
    g.assign(PlacedTensor(Layout::kHeadsFirst, dtype, kSizes, 2));
    const reference::Elements before = x.snapshot();
    const reference::Elements g_before = g.snapshot();
    const GradientOperand parameters_only{x.view(), g.view(), {}};
    const GradientOperand in_place{x.view(), g.view(), g.view()};

    std::vector<double> frequencies(all.frequencies.size());
    rope.gradient(std::span(&parameters_only, 1), Positions::range(),
                  {.frequencies = frequencies, .positions = {}, .scale = nullptr});
    EXPECT_EQ(frequencies, all.frequencies);
    double scale = 0.0;
    rope.gradient(std::span(&parameters_only, 1), Positions::range(),
                  {.frequencies = {}, .positions = {}, .scale = &scale});
    EXPECT_EQ(scale, all.scale);
    std::vector<double> positions(all.positions.size());
    rope.gradient(
        std::span(&parameters_only, 1), Positions::range(),
        {.frequencies = {},
         .positions = TensorView::contiguous(positions.data(), DType::kFloat64, {1, kSizes.tokens}),
         .scale = nullptr});
    EXPECT_EQ(positions, all.positions);
    rope.gradient(std::span(&parameters_only, 1), Positions::range());
    EXPECT_TRUE(g.memory() == g_before);

    rope.gradient(std::span(&in_place, 1), Positions::range());
    EXPECT_EQ(g.bits(), all.grad_in);
    g.restore(g_before);
    frequencies.assign(frequencies.size(), 0.0);
    rope.gradient(std::span(&in_place, 1), Positions::range(),
                  {.frequencies = frequencies, .positions = {}, .scale = &scale});
    EXPECT_EQ(g.bits(), all.grad_in);
    EXPECT_EQ(frequencies, all.frequencies);
    EXPECT_EQ(scale, all.scale);
    EXPECT_TRUE(x.memory() == before);
  }
}

// Empty sums are written, too.
TEST(GradientCall, EmptyTensorsGiveZero) {
  const Rope rope = make_rope();
  std::vector<double> frequencies(10, 7.0);
  double scale = 7.0;
  const auto empty = TensorView::contiguous(nullptr, DType::kFloat32, {2, 0, 3, kHeadDim});
  const GradientOperand operand{empty, empty, empty};
  rope.gradient(std::span(&operand, 1), Positions::range(),
                {.frequencies = frequencies, .positions = {}, .scale = &scale});
  EXPECT_EQ(frequencies, std::vector<double>(10, 0.0));
  EXPECT_EQ(scale, 0.0);
}

// ---- Rejected calls ----------------------------------------------------------------------------

class GradientRejects : public RopeRejects {
 protected:
  void rejects(const GradientOperand& operand, const std::string& rule,
               const Positions& positions = Positions::range(),
               const ParameterGradients& parameters = {}) {
    expect_rejected([&] { rope().gradient(std::span(&operand, 1), positions, parameters); },
                    "gradient", rule);
  }
  GradientOperand good() { return {x(), x(), y()}; }
};

TEST_F(GradientRejects, InvalidTensors) {
  TensorView wrong = y();
  wrong.shape[1] = 1;
  rejects({x(), wrong, {}}, "shape");
  rejects({x(), x(), wrong}, "shape");
  wrong = y();
  wrong.dtype = DType::kFloat16;
  rejects({x(), wrong, {}}, "type");
  rejects({x(), x(), wrong}, "type");
  wrong = y();
  wrong.strides[0] = 0;
  rejects({x(), x(), wrong}, "must not share memory");
  wrong.strides[0] = 8;
  wrong.shape[2] = 3;
  rejects({wrong, wrong, {}}, "the last size must be head_dim 4");
  wrong = x();
  wrong.data = static_cast<float*>(wrong.data) + 1;
  rejects({y(), x(), wrong}, "share");
  // The input is read after grad_in is written.
  rejects({x(), y(), x()}, "share");
  const std::vector<GradientOperand> twice = {good(), good()};
  expect_rejected([&] { rope().gradient(twice, Positions::range()); }, "gradient", "share");
  const std::vector<GradientOperand> many(kMaxOperands + 1, {x(), x(), {}});
  expect_rejected([&] { rope().gradient(many, Positions::range()); }, "gradient",
                  "1 to 16 tensors");
  expect_rejected([&] { rope().gradient({}, Positions::range()); }, "gradient", "1 to 16 tensors");
}

TEST_F(GradientRejects, InvalidPositions) {
  const std::vector<std::int64_t> two = {1, 2};
  rejects(good(), "3 tokens", Positions::ids(two));
  const std::vector<float> not_finite = {0.0f, static_cast<float>(kNan), 1.0f};
  rejects(good(), "positions must be finite", Positions::ids(not_finite));

  // Rejected before the gradients of parameters are written.
  double scale = 0.5;
  const auto ids = ConstTensorView::contiguous(y().data, DType::kFloat32, {3});
  rejects(good(), "must not share memory with the positions", Positions::ids(ids),
          {.frequencies = {}, .positions = {}, .scale = &scale});
  EXPECT_EQ(scale, 0.5);
}

TEST_F(GradientRejects, Float8AndMixedDevices) {
  TensorView narrow = x();
  narrow.dtype = DType::kFloat8E4M3;
  rejects({narrow, narrow, {}}, "16 bits or more");
  if (has_cuda()) {
    TensorView there = x();
    there.device = {DeviceType::kCuda, 0};
    const std::vector<GradientOperand> apart = {{x(), x(), {}}, {there, there, {}}};
    expect_rejected([&] { rope().gradient(apart, Positions::range()); }, "gradient",
                    "on the same device");
    double scale = 0.5;
    rejects({there, there, {}}, "parameters.workspace must have", Positions::range(),
            {.frequencies = {}, .positions = {}, .scale = &scale});
  }
  // Impossible sizes saturate instead of overflowing.
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::size_t wanted = rope().gradient_workspace(kHuge, kHuge);
  EXPECT_EQ(wanted, has_cuda() ? std::numeric_limits<std::size_t>::max() : 0);
  EXPECT_EQ(rope().gradient_workspace(-1, 5), 0u);
}

TEST_F(GradientRejects, InvalidParameterGradients) {
  std::vector<double> memory(8, 0.5);
  const auto frequencies = [&](std::size_t count) {
    return ParameterGradients{
        .frequencies = std::span(memory).first(count), .positions = {}, .scale = nullptr};
  };
  rejects(good(), "frequencies", Positions::range(), frequencies(1));
  rejects(good(), "frequencies", Positions::range(), frequencies(3));
  const auto positions = [&](std::initializer_list<std::int64_t> shape,
                             DType dtype = DType::kFloat64) {
    return ParameterGradients{.frequencies = {},
                              .positions = TensorView::contiguous(memory.data(), dtype, shape),
                              .scale = nullptr};
  };
  rejects(good(), "positions", Positions::range(), positions({1, 2}));
  rejects(good(), "positions", Positions::range(), positions({2, 3}));
  rejects(good(), "positions", Positions::range(), positions({1, 2, 3}));
  rejects(good(), "float64", Positions::range(), positions({1, 3}, DType::kFloat32));
  ParameterGradients repeated = positions({1, 3});
  repeated.positions.strides[1] = 0;
  rejects(good(), "share", Positions::range(), repeated);
  ParameterGradients elsewhere = positions({1, 3});
  elsewhere.positions.device = {DeviceType::kCuda, 0};
  rejects(good(), "device of the tensors", Positions::range(), elsewhere);
  EXPECT_EQ(memory, std::vector<double>(8, 0.5));
}

// Gradients of parameters must not overlap each other ...
TEST_F(GradientRejects, OverlappingParameterGradients) {
  std::vector<double> memory(8, 0.5);
  const auto view = TensorView::contiguous(memory.data(), DType::kFloat64, {1, 3});
  const std::span<double> all(memory);
  rejects(good(), "share", Positions::range(),
          {.frequencies = all.subspan(2, 2), .positions = view, .scale = nullptr});
  rejects(good(), "share", Positions::range(),
          {.frequencies = all.subspan(2, 2), .positions = {}, .scale = &memory[3]});
  rejects(good(), "share", Positions::range(),
          {.frequencies = {}, .positions = view, .scale = &memory[0]});
  EXPECT_EQ(memory, std::vector<double>(8, 0.5));
}

// ... nor tensors.
TEST_F(GradientRejects, ParameterGradientsOverlappingTensors) {
  std::vector<double> x(24, 0.5);
  std::vector<double> out(24, -7.0);
  const auto view = [](std::vector<double>& memory) {
    return TensorView::contiguous(memory.data(), DType::kFloat64, {3, 2, 4});
  };
  const GradientOperand operand{view(x), view(x), view(out)};
  const std::span<double> end(out.data() + 22, 2);
  rejects(operand, "share", Positions::range(),
          {.frequencies = end, .positions = {}, .scale = nullptr});
  rejects(operand, "share", Positions::range(),
          {.frequencies = {},
           .positions = TensorView::contiguous(out.data(), DType::kFloat64, {1, 3}),
           .scale = nullptr});
  rejects(operand, "share", Positions::range(),
          {.frequencies = {}, .positions = {}, .scale = &x[5]});
  EXPECT_EQ(out, std::vector<double>(24, -7.0));
}

}  // namespace
}  // namespace rotary::gradient_calls_test
