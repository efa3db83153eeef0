// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::gradient as a call: the same bits however it is asked for and on whatever threads, nothing
// that was not asked for, and what it refuses.

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
#include "rope/refused.h"
#include "rotary/rope.h"

namespace rotary {
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

/// Tensors to take the gradients of, again and again.
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

// More tokens than one part of the work, shared by three whatever the type, and no number that they
// divide.
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

// Whole numbers are the same in every form, and from a table.
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

// grad_in may be where grad_out was, with two pairings; and each output may be asked for alone.
TEST(GradientCall, OnlyWhatIsAskedFor) {
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

// Sums over nothing are written, too.
TEST(GradientCall, OfNothingIsZero) {
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

// ---- What is refused ---------------------------------------------------------------------------

class BadGradient : public BadCall {
 protected:
  void refused(const GradientOperand& operand, const std::string& rule,
               const Positions& positions = Positions::range(),
               const ParameterGradients& parameters = {}) {
    expect_refused([&] { rope().gradient(std::span(&operand, 1), positions, parameters); },
                   "gradient", rule);
  }
  GradientOperand good() { return {x(), x(), y()}; }
};

TEST_F(BadGradient, Tensors) {
  TensorView wrong = y();
  wrong.shape[1] = 1;
  refused({x(), wrong, {}}, "shape");
  refused({x(), x(), wrong}, "shape");
  wrong = y();
  wrong.dtype = DType::kFloat16;
  refused({x(), wrong, {}}, "type");
  refused({x(), x(), wrong}, "type");
  wrong = y();
  wrong.strides[0] = 0;
  refused({x(), x(), wrong}, "must not share memory");
  wrong.strides[0] = 8;
  wrong.shape[2] = 3;
  refused({wrong, wrong, {}}, "the last size must be head_dim 4");
  wrong = x();
  wrong.data = static_cast<float*>(wrong.data) + 1;
  refused({y(), x(), wrong}, "share");
  // The input is read after the gradient of it is written.
  refused({x(), y(), x()}, "share");
  const std::vector<GradientOperand> twice = {good(), good()};
  expect_refused([&] { rope().gradient(twice, Positions::range()); }, "gradient", "share");
  const std::vector<GradientOperand> many(kMaxOperands + 1, {x(), x(), {}});
  expect_refused([&] { rope().gradient(many, Positions::range()); }, "gradient", "1 to 16 tensors");
  expect_refused([&] { rope().gradient({}, Positions::range()); }, "gradient", "1 to 16 tensors");
}

TEST_F(BadGradient, Positions) {
  const std::vector<std::int64_t> two = {1, 2};
  refused(good(), "3 tokens", Positions::ids(two));
  const std::vector<float> not_finite = {0.0f, static_cast<float>(kNan), 1.0f};
  refused(good(), "positions must be finite", Positions::ids(not_finite));

  // What is refused is refused before the gradients of parameters are written.
  double scale = 0.5;
  const auto ids = ConstTensorView::contiguous(y().data, DType::kFloat32, {3});
  refused(good(), "must not share memory with the positions", Positions::ids(ids),
          {.frequencies = {}, .positions = {}, .scale = &scale});
  EXPECT_EQ(scale, 0.5);
}

TEST_F(BadGradient, Places) {
  TensorView narrow = x();
  narrow.dtype = DType::kFloat8E4M3;
  refused({narrow, narrow, {}}, "16 bits or more");
  if (has_cuda()) {
    TensorView there = x();
    there.device = {DeviceType::kCuda, 0};
    const std::vector<GradientOperand> apart = {{x(), x(), {}}, {there, there, {}}};
    expect_refused([&] { rope().gradient(apart, Positions::range()); }, "gradient",
                   "on the same device");
    double scale = 0.5;
    refused({there, there, {}}, "parameters.workspace must have", Positions::range(),
            {.frequencies = {}, .positions = {}, .scale = &scale});
  }
  // Sizes that no memory holds are told as such, and nothing overflows.
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::size_t wanted = rope().gradient_workspace(kHuge, kHuge);
  EXPECT_EQ(wanted, has_cuda() ? std::numeric_limits<std::size_t>::max() : 0);
  EXPECT_EQ(rope().gradient_workspace(-1, 5), 0u);
}

TEST_F(BadGradient, Parameters) {
  std::vector<double> memory(8, 0.5);
  const auto frequencies = [&](std::size_t count) {
    return ParameterGradients{
        .frequencies = std::span(memory).first(count), .positions = {}, .scale = nullptr};
  };
  refused(good(), "frequencies", Positions::range(), frequencies(1));
  refused(good(), "frequencies", Positions::range(), frequencies(3));
  const auto positions = [&](std::initializer_list<std::int64_t> shape,
                             DType dtype = DType::kFloat64) {
    return ParameterGradients{.frequencies = {},
                              .positions = TensorView::contiguous(memory.data(), dtype, shape),
                              .scale = nullptr};
  };
  refused(good(), "positions", Positions::range(), positions({1, 2}));
  refused(good(), "positions", Positions::range(), positions({2, 3}));
  refused(good(), "positions", Positions::range(), positions({1, 2, 3}));
  refused(good(), "float64", Positions::range(), positions({1, 3}, DType::kFloat32));
  ParameterGradients repeated = positions({1, 3});
  repeated.positions.strides[1] = 0;
  refused(good(), "share", Positions::range(), repeated);
  ParameterGradients elsewhere = positions({1, 3});
  elsewhere.positions.device = {DeviceType::kCuda, 0};
  refused(good(), "device of the tensors", Positions::range(), elsewhere);
  EXPECT_EQ(memory, std::vector<double>(8, 0.5));
}

// What is written is written once: not as a frequency and as a position, too.
TEST_F(BadGradient, ParametersThatMeet) {
  std::vector<double> memory(8, 0.5);
  const auto view = TensorView::contiguous(memory.data(), DType::kFloat64, {1, 3});
  const std::span<double> all(memory);
  refused(good(), "share", Positions::range(),
          {.frequencies = all.subspan(2, 2), .positions = view, .scale = nullptr});
  refused(good(), "share", Positions::range(),
          {.frequencies = all.subspan(2, 2), .positions = {}, .scale = &memory[3]});
  refused(good(), "share", Positions::range(),
          {.frequencies = {}, .positions = view, .scale = &memory[0]});
  EXPECT_EQ(memory, std::vector<double>(8, 0.5));
}

// Nor as the gradient of a tensor.
TEST_F(BadGradient, ParametersInTensors) {
  std::vector<double> x(24, 0.5);
  std::vector<double> out(24, -7.0);
  const auto view = [](std::vector<double>& memory) {
    return TensorView::contiguous(memory.data(), DType::kFloat64, {3, 2, 4});
  };
  const GradientOperand operand{view(x), view(x), view(out)};
  const std::span<double> end(out.data() + 22, 2);
  refused(operand, "share", Positions::range(),
          {.frequencies = end, .positions = {}, .scale = nullptr});
  refused(operand, "share", Positions::range(),
          {.frequencies = {},
           .positions = TensorView::contiguous(out.data(), DType::kFloat64, {1, 3}),
           .scale = nullptr});
  refused(operand, "share", Positions::range(),
          {.frequencies = {}, .positions = {}, .scale = &x[5]});
  EXPECT_EQ(out, std::vector<double>(24, -7.0));
}

}  // namespace
}  // namespace rotary
