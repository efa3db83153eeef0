// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every function on ropes gives what the C++ API gives, bit for bit.

#include <string>
#include <utility>
#include <vector>

#include "c/c_testing.h"
#include "rotary/cuda.h"
#include "rotary/model.h"
#include "rotary/version.h"

namespace rotary {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAreArray;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

/// Three axes, growth, a scale, and another pairing written than read.
Frequencies rich_frequencies() {
  Frequencies f{.pairs = 3, .axes = 2, .values = {1, 0, 0.25, -0.5, 0, 0.0625}};
  f.scale = 1.125;
  f.softmax_scale = 1.5;
  f.growth = {0.01, 0, -0.02, 0.005, 0, 0.001};
  f.growth_origin = 2;
  return f;
}
HeadLayout rich_layout() {
  return {.head_dim = 8,
          .rotary_offset = 1,
          .pairing = Pairing::kInterleaved,
          .output_pairing = Pairing::kHalf};
}

CRope c_rope(const Frequencies& f, const HeadLayout& layout,
             const rotary_rope_options* options = nullptr) {
  rotary_frequencies frequencies = rotary_frequencies_init(f.values.data(), f.pairs, f.axes);
  frequencies.scale = f.scale;
  frequencies.softmax_scale = f.softmax_scale;
  frequencies.growth = f.growth.empty() ? nullptr : f.growth.data();
  frequencies.growth_origin = f.growth_origin;
  rotary_head_layout head =
      rotary_head_layout_init(layout.head_dim, static_cast<int>(*layout.pairing) + 1);
  head.rotary_offset = layout.rotary_offset;
  if (layout.output_pairing) head.output_pairing = static_cast<int>(*layout.output_pairing) + 1;
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_frequencies(&frequencies, &head, options, &rope));
  return CRope(rope);
}

Frequencies plain_frequencies() { return make_frequencies({.rotary_dim = 8, .theta = 100}); }
HeadLayout plain_layout() { return {.head_dim = 8, .pairing = Pairing::kHalf}; }

// ---- Operations ---------------------------------------------------------------------------------

using Method = void (Rope::*)(const Operands&, const Positions&, Stream) const;
struct Operation {
  const char* name;
  decltype(&rotary_rope_rotate) c;
  Method cpp;
};
const Operation kOperations[] = {{"rotate", rotary_rope_rotate, &Rope::rotate},
                                 {"unrotate", rotary_rope_unrotate, &Rope::unrotate},
                                 {"adjoint", rotary_rope_adjoint, &Rope::adjoint},
                                 {"shift", rotary_rope_shift, &Rope::shift}};

/// Every operation, in place and out of place, of q and k in one call.
void expect_same(const rotary_rope* c, const Rope& cpp, const rotary_positions& c_positions,
                 const Positions& positions, DType dtype = DType::kFloat32) {
  for (const auto& [name, c_operation, method] : kOperations) {
    SCOPED_TRACE(name);
    QueryAndKey expected(dtype);
    (cpp.*method)({expected.q(), expected.k()}, positions, {});
    EXPECT_FALSE(expected == QueryAndKey(dtype));

    QueryAndKey in_place(dtype);
    const auto both = in_place.tensors();
    ROTARY_EXPECT_OK(c_operation(c, both.data(), nullptr, 2, &c_positions));
    EXPECT_TRUE(in_place == expected);

    QueryAndKey in(dtype);
    QueryAndKey out(dtype, 7);
    ROTARY_EXPECT_OK(c_operation(c, in.tensors().data(), out.tensors().data(), 2, &c_positions));
    EXPECT_TRUE(out == expected);
    EXPECT_TRUE(in == QueryAndKey(dtype));
  }
}

TEST(CRopeTest, EveryTypeAsCpp) {
  const Rope cpp(rich_frequencies(), rich_layout());
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  const std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};  // [axes, tokens]
  const auto view = ConstTensorView::contiguous(ids.data(), DType::kInt32, {2, 5});
  std::vector<std::int32_t> c_ids = ids;
  const std::int64_t shape[] = {2, 5};
  const rotary_tensor tensor = rotary_tensor_contiguous(c_ids.data(), ROTARY_DTYPE_INT32, 2, shape);
  for (const DType dtype : kFloats) {
    SCOPED_TRACE(name_of(dtype));
    expect_same(c.get(), cpp, rotary_positions_ids(&tensor), Positions::ids(view), dtype);
  }
}

TEST(CRopeTest, RangesAndPackedAsCpp) {
  const Rope cpp(plain_frequencies(), plain_layout());
  const CRope c = c_rope(plain_frequencies(), plain_layout());
  const auto same = [&](const rotary_positions& c_positions, const Positions& positions) {
    expect_same(c.get(), cpp, c_positions, positions);
  };
  const std::vector<std::int64_t> rows{1000, -7};
  const std::vector<std::int64_t> boundaries{0, 2, 2, 5};
  const std::vector<std::int64_t> first{10, 20, 30};
  same(rotary_positions_range(4096), Positions::range(4096));
  same(rotary_positions_range_rows(rows.data(), 2), Positions::range(rows));
  same(rotary_positions_at(-3), Positions::at(-3));
  same(rotary_positions_at_rows(rows.data(), 2), Positions::at(rows));
  same(rotary_positions_packed(boundaries.data(), 3, nullptr), Positions::packed(boundaries));
  same(rotary_positions_packed(boundaries.data(), 3, first.data()),
       Positions::packed(boundaries, first));
  same(rotary_positions_packed_at(boundaries.data(), 3, first.data()),
       Positions::packed_at(boundaries, first));
}

/// Views of T give the bits of the lists of int64 with the same numbers.
template <typename T>
void expect_views_as_lists() {
  const Rope cpp(plain_frequencies(), plain_layout());
  const CRope c = c_rope(plain_frequencies(), plain_layout());
  const auto same = [&](const rotary_positions& c_positions, const Positions& positions) {
    expect_same(c.get(), cpp, c_positions, positions);
  };
  const std::vector<std::int64_t> rows{1000, -7};
  const std::vector<std::int64_t> boundaries{0, 2, 2, 5};
  const std::vector<std::int64_t> first{10, 20, 30};
  std::vector<T> row_values(rows.begin(), rows.end());
  std::vector<T> boundary_values(boundaries.begin(), boundaries.end());
  std::vector<T> first_values(first.begin(), first.end());
  rotary_tensor row_view = c_row(row_values);
  const rotary_tensor boundary_view = c_row(boundary_values);
  const rotary_tensor first_view = c_row(first_values);

  same(rotary_positions_range_view(&row_view), Positions::range(rows));
  same(rotary_positions_at_view(&row_view), Positions::at(rows));
  same(rotary_positions_packed_view(&boundary_view, nullptr), Positions::packed(boundaries));
  same(rotary_positions_packed_view(&boundary_view, &first_view),
       Positions::packed(boundaries, first));
  same(rotary_positions_packed_at_view(&boundary_view, &first_view),
       Positions::packed_at(boundaries, first));

  // Backwards, with a gap.
  std::vector<T> spread{-7, 55, 1000};
  row_view.data = &spread[2];
  row_view.strides[0] = -2;
  same(rotary_positions_range_view(&row_view), Positions::range(rows));
}

TEST(CRopeTest, ViewsOfPositionsAsLists) {
  {
    SCOPED_TRACE("int32");
    expect_views_as_lists<std::int32_t>();
  }
  SCOPED_TRACE("int64");
  expect_views_as_lists<std::int64_t>();
}

TEST(CRopeTest, AViewBesideAList) {
  const Rope cpp(plain_frequencies(), plain_layout());
  const CRope c = c_rope(plain_frequencies(), plain_layout());
  const std::vector<std::int64_t> boundaries{0, 2, 5};
  std::vector<std::int64_t> first{10, 20};
  const rotary_tensor first_view = c_row(first);
  rotary_positions positions = rotary_positions_packed(boundaries.data(), 2, nullptr);
  positions.first_view = &first_view;
  expect_same(c.get(), cpp, positions, Positions::packed(boundaries, first));
}

template <typename T>
void expect_same_ids(rotary_dtype c_type, DType type) {
  SCOPED_TRACE(name_of(type));
  const Rope cpp(rich_frequencies(), rich_layout());
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  // [axes, batch, tokens], tokens backwards and batch rows shared: any strides.
  std::vector<T> values;
  for (int i = 0; i < 10; ++i) values.push_back(static_cast<T>(3 * i - 4));
  ConstTensorView view{values.data() + 4, type, 3, {2, 2, 5, 0}, {5, 0, -1, 0}, {}};
  rotary_tensor tensor = rotary_tensor_contiguous(values.data() + 4, c_type, 3, view.shape.data());
  for (std::size_t i = 0; i < kMaxRank; ++i) tensor.strides[i] = view.strides[i];
  expect_same(c.get(), cpp, rotary_positions_ids(&tensor), Positions::ids(view));

  // [tokens], the same on both axes.
  view = {values.data(), type, 1, {5, 0, 0, 0}, {2, 0, 0, 0}, {}};
  tensor = rotary_tensor_contiguous(values.data(), c_type, 1, view.shape.data());
  tensor.strides[0] = 2;
  rotary_positions positions = rotary_positions_ids(&tensor);
  positions.on_all_axes = 1;
  expect_same(c.get(), cpp, positions, Positions::ids(view).on_all_axes());
}

TEST(CRopeTest, IdsAsCpp) {
  expect_same_ids<std::int32_t>(ROTARY_DTYPE_INT32, DType::kInt32);
  expect_same_ids<std::int64_t>(ROTARY_DTYPE_INT64, DType::kInt64);
  expect_same_ids<float>(ROTARY_DTYPE_FLOAT32, DType::kFloat32);
  expect_same_ids<double>(ROTARY_DTYPE_FLOAT64, DType::kFloat64);
}

TEST(CRopeTest, NoTensorsAndOneTensor) {
  const CRope c = c_rope(plain_frequencies(), plain_layout());
  const rotary_positions positions = rotary_positions_range(1);
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), nullptr, nullptr, 0, &positions));

  // Strided: k alone, of every other token.
  QueryAndKey expected;
  QueryAndKey got;
  const auto every_other = [](TensorView view) {
    view.shape[1] = 3;
    view.strides[1] *= 2;
    return view;
  };
  const Rope cpp(plain_frequencies(), plain_layout());
  cpp.rotate(every_other(expected.k()), Positions::range(1));
  const rotary_tensor k = c_tensor(every_other(got.k()));
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), &k, nullptr, 1, &positions));
  EXPECT_TRUE(got == expected);
}

TEST(CRopeTest, RerotateAsCpp) {
  const Rope from(plain_frequencies(), plain_layout());
  const Rope to(make_frequencies({.rotary_dim = 8, .theta = 5000}), plain_layout());
  const CRope c_from = c_rope(from.frequencies(), plain_layout());
  const CRope c_to = c_rope(to.frequencies(), plain_layout());
  QueryAndKey expected;
  rerotate({expected.q(), expected.k()}, from, to, Positions::range(77));
  QueryAndKey got;
  QueryAndKey out(DType::kFloat32, 9);
  const rotary_positions positions = rotary_positions_range(77);
  ROTARY_EXPECT_OK(rotary_rope_rerotate(c_from.get(), c_to.get(), got.tensors().data(),
                                        out.tensors().data(), 2, &positions));
  EXPECT_TRUE(out == expected);
  ROTARY_EXPECT_OK(
      rotary_rope_rerotate(c_from.get(), c_to.get(), got.tensors().data(), nullptr, 2, &positions));
  EXPECT_TRUE(got == expected);
}

TEST(CRopeTest, GradientAsCpp) {
  const Rope cpp(rich_frequencies(), rich_layout());
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  std::vector<double> ids{0, 1, 2, 3, 4, 0.5, 1.5, 2.5, 3.5, 4.5};
  const std::int64_t shape[] = {2, 5};
  const rotary_tensor c_ids = rotary_tensor_contiguous(ids.data(), ROTARY_DTYPE_FLOAT64, 2, shape);
  const rotary_positions c_positions = rotary_positions_ids(&c_ids);
  const Positions positions =
      Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kFloat64, {2, 5}));

  QueryAndKey in;
  QueryAndKey grad_out(DType::kFloat32, 5);
  QueryAndKey expected(DType::kFloat32, 6);
  std::vector<double> frequencies(6);
  std::vector<double> at(10);
  double scale = 0;
  const std::vector<GradientOperand> operands{
      {.in = in.q(), .grad_out = grad_out.q(), .grad_in = expected.q()},
      {.in = in.k(), .grad_out = grad_out.k(), .grad_in = expected.k()}};
  cpp.gradient(operands, positions,
               {.frequencies = frequencies,
                .positions = TensorView::contiguous(at.data(), DType::kFloat64, {2, 5}),
                .scale = &scale});
  ASSERT_NE(scale, 0.0);

  QueryAndKey grad_in(DType::kFloat32, 6);
  std::vector<double> c_frequencies(6);
  std::vector<double> c_at(10);
  double c_scale = 0;
  const rotary_tensor at_view =
      rotary_tensor_contiguous(c_at.data(), ROTARY_DTYPE_FLOAT64, 2, shape);
  rotary_gradients gradients = rotary_gradients_init();
  gradients.frequencies = c_frequencies.data();
  gradients.num_frequencies = 6;
  gradients.positions = &at_view;
  gradients.scale = &c_scale;
  ROTARY_EXPECT_OK(rotary_rope_gradient(c.get(), in.tensors().data(), grad_out.tensors().data(),
                                        grad_in.tensors().data(), 2, &c_positions, &gradients));
  EXPECT_TRUE(grad_in == expected);
  EXPECT_EQ(c_frequencies, frequencies);
  EXPECT_EQ(c_at, at);
  EXPECT_EQ(c_scale, scale);

  // Of parameters alone, of tensors alone, of one tensor alone.
  QueryAndKey again(DType::kFloat32, 6);
  std::fill(c_frequencies.begin(), c_frequencies.end(), 0.0);
  ROTARY_EXPECT_OK(rotary_rope_gradient(c.get(), in.tensors().data(), grad_out.tensors().data(),
                                        nullptr, 2, &c_positions, &gradients));
  EXPECT_EQ(c_frequencies, frequencies);
  ROTARY_EXPECT_OK(rotary_rope_gradient(c.get(), in.tensors().data(), grad_out.tensors().data(),
                                        again.tensors().data(), 2, &c_positions, nullptr));
  EXPECT_TRUE(again == expected);
  QueryAndKey only_k(DType::kFloat32, 6);
  auto wanted = only_k.tensors();
  wanted[0] = rotary_tensor{};
  wanted[0].struct_size = sizeof(rotary_tensor);
  ROTARY_EXPECT_OK(rotary_rope_gradient(c.get(), in.tensors().data(), grad_out.tensors().data(),
                                        wanted.data(), 2, &c_positions, nullptr));
  EXPECT_EQ(only_k.k_bytes, expected.k_bytes);
  EXPECT_EQ(only_k.q_bytes, QueryAndKey(DType::kFloat32, 6).q_bytes);
}

TEST(CRopeTest, GradientTakesAWorkspace) {
  const Rope cpp(rich_frequencies(), rich_layout());
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  for (const std::int64_t batch : {0, 1, 3}) {
    for (const std::int64_t tokens : {0, 1, 5, 4096}) {
      std::size_t bytes = 77;
      ROTARY_EXPECT_OK(rotary_rope_gradient_workspace(c.get(), batch, tokens, &bytes));
      EXPECT_EQ(bytes, cpp.gradient_workspace(batch, tokens));
    }
  }

  // The CPU does not need it, and leaves it alone.
  const CRope plain = c_rope(plain_frequencies(), plain_layout());
  const rotary_positions positions = rotary_positions_range(7);
  QueryAndKey in;
  QueryAndKey grad_out(DType::kFloat32, 5);
  std::vector<unsigned char> workspace(64, 0xAA);
  double scales[] = {0.0, 1.0};
  for (double& scale : scales) {
    rotary_gradients gradients = rotary_gradients_init();
    gradients.scale = &scale;
    if (&scale != scales) {
      gradients.workspace = workspace.data();
      gradients.workspace_size = workspace.size();
    }
    ROTARY_EXPECT_OK(rotary_rope_gradient(plain.get(), in.tensors().data(),
                                          grad_out.tensors().data(), nullptr, 2, &positions,
                                          &gradients));
  }
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_THAT(workspace, testing::Each(0xAA));
}

// ---- cos and sin --------------------------------------------------------------------------------

/// [batch 2, tokens 5, 3 pairs] of any type, for cos and for sin.
struct CosSin {
  explicit CosSin(DType dtype) : type(dtype) {
    for (auto* bytes : {&cosines, &sines}) bytes->resize(30 * size_of(dtype));
  }
  TensorView view(std::vector<std::byte>& bytes) const {
    return TensorView::contiguous(bytes.data(), type, {2, 5, 3});
  }
  TensorView cos() { return view(cosines); }
  TensorView sin() { return view(sines); }
  bool operator==(const CosSin&) const = default;

  DType type;
  std::vector<std::byte> cosines{};
  std::vector<std::byte> sines{};
};

TEST(CRopeTest, CosSinAsCpp) {
  const Rope cpp(rich_frequencies(), rich_layout());
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  const std::vector<std::int64_t> rows{1000, -7};
  rotary_positions positions = rotary_positions_range_rows(rows.data(), 2);
  positions.on_all_axes = 1;
  for (const DType dtype : kFloats) {
    SCOPED_TRACE(name_of(dtype));
    CosSin expected(dtype);
    cpp.cos_sin(expected.cos(), expected.sin(), Positions::range(rows).on_all_axes());
    EXPECT_FALSE(expected == CosSin(dtype));

    CosSin got(dtype);
    const rotary_tensor cosines = c_tensor(got.cos());
    const rotary_tensor sines = c_tensor(got.sin());
    ROTARY_EXPECT_OK(rotary_rope_cos_sin(c.get(), &cosines, &sines, &positions));
    EXPECT_TRUE(got == expected);
  }
}

// ---- Streams ------------------------------------------------------------------------------------

TEST(CRopeTest, AStreamChangesNothingOnTheCpu) {
  const rotary_threads threads = rotary_threads_init(2);
  rotary_rope_options options = rotary_rope_options_init();
  options.precision = ROTARY_PRECISION_REFERENCE;
  options.threads = &threads;
  const CRope c = c_rope(plain_frequencies(), plain_layout(), &options);
  const Rope cpp(plain_frequencies(), plain_layout(), {.precision = Precision::kReference});
  int no_stream = 0;  // on the CPU nobody looks at it
  for (void* const stream : {static_cast<void*>(nullptr), static_cast<void*>(&no_stream)}) {
    for (const std::int32_t overlap : {0, 1}) {
      rotary_rope* made = nullptr;
      ROTARY_EXPECT_OK(rotary_rope_with_stream(c.get(), stream, overlap, &made));
      const CRope on_stream(made);
      expect_same(on_stream.get(), cpp, rotary_positions_range(3), Positions::range(3));
      rotary_rope_options asked = rotary_rope_options_init();
      ROTARY_EXPECT_OK(rotary_rope_get_options(on_stream.get(), &asked));
      EXPECT_EQ(asked.precision, ROTARY_PRECISION_REFERENCE);
      EXPECT_EQ(asked.threads->count, 2);
    }
  }
}

TEST(CRopeTest, AStreamOutlivesTheRopeItWasGivenTo) {
  CRope c = c_rope(plain_frequencies(), plain_layout());
  rotary_rope* made = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_with_stream(c.get(), nullptr, 1, &made));
  c.reset(made);  // frees the first
  const rotary_threads one = rotary_threads_init(1);
  ROTARY_EXPECT_OK(rotary_rope_with_threads(c.get(), &one, &made));
  c.reset(made);
  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(c.get(), &made));
  c.reset(made);
  expect_same(c.get(), Rope(plain_frequencies(), plain_layout()), rotary_positions_range(3),
              Positions::range(3));
}

// ---- Making and asking --------------------------------------------------------------------------

TEST(CRopeTest, FromThetaAsCpp) {
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  rotary_rope* rope = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_from_theta(8, 100.0, &layout, nullptr, &rope));
  const CRope c(rope);
  expect_same(c.get(), Rope(plain_frequencies(), plain_layout()), rotary_positions_range(3),
              Positions::range(3));
}

TEST(CRopeTest, FromModelAsCpp) {
  // Qwen 2.5 with YaRN scales; DeepSeek writes another pairing than it reads; both have a name.
  for (const char* name : {"qwen2.5-7b-yarn.json", "deepseek-v3.json", "gemma-3-4b.json"}) {
    SCOPED_TRACE(name);
    const CModel model = read_model(name);
    const Model cpp_model = Model::read(kModels + name);
    for (const ModelRope& named : cpp_model.ropes) {
      SCOPED_TRACE(named.name);
      rotary_rope* rope = nullptr;
      ROTARY_EXPECT_OK(
          rotary_rope_from_model(model.get(), named.name.c_str(), 9000, nullptr, &rope));
      const CRope c(rope);
      const Rope cpp = named.make_rope(9000);
      rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
      ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &f));
      EXPECT_THAT(std::vector<double>(f.values, f.values + f.pairs * f.axes),
                  ElementsAreArray(cpp.frequencies().values));
      EXPECT_EQ(f.scale, cpp.frequencies().scale);
      EXPECT_EQ(f.softmax_scale, cpp.frequencies().softmax_scale);

      std::vector<float> x(static_cast<std::size_t>(cpp.layout().head_dim), 1.0F);
      std::vector<float> y = x;
      const auto view = [&](std::vector<float>& data) {
        return TensorView::contiguous(data.data(), DType::kFloat32, {1, 1, cpp.layout().head_dim});
      };
      cpp.rotate(view(x), Positions::range(12345));
      const rotary_tensor tensor = c_tensor(view(y));
      const rotary_positions positions = rotary_positions_range(12345);
      ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), &tensor, nullptr, 1, &positions));
      EXPECT_EQ(x, y);
    }
    // No name: the usual one.
    rotary_rope* rope = nullptr;
    ROTARY_EXPECT_OK(rotary_rope_from_model(model.get(), nullptr, 0, nullptr, &rope));
    const CRope usual(rope);
    rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
    ROTARY_EXPECT_OK(rotary_rope_get_frequencies(usual.get(), &f));
    EXPECT_THAT(std::vector<double>(f.values, f.values + f.pairs * f.axes),
                ElementsAreArray(cpp_model.rope().make_frequencies().values));
  }
}

TEST(CRopeTest, WhatItIsMadeOf) {
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  const Frequencies rich = rich_frequencies();
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &f));
  EXPECT_EQ(f.struct_size, sizeof(f));
  EXPECT_EQ(f.pairs, 3);
  EXPECT_EQ(f.axes, 2);
  EXPECT_THAT(std::vector<double>(f.values, f.values + 6), ElementsAreArray(rich.values));
  EXPECT_THAT(std::vector<double>(f.growth, f.growth + 6), ElementsAreArray(rich.growth));
  EXPECT_EQ(f.scale, 1.125);
  EXPECT_EQ(f.softmax_scale, 1.5);
  EXPECT_EQ(f.growth_origin, 2.0);

  rotary_head_layout layout = rotary_head_layout_init(0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_layout(c.get(), &layout));
  EXPECT_EQ(layout.struct_size, sizeof(layout));
  EXPECT_EQ(layout.head_dim, 8);
  EXPECT_EQ(layout.rotary_offset, 1);
  EXPECT_EQ(layout.pairing, ROTARY_PAIRING_INTERLEAVED);
  EXPECT_EQ(layout.output_pairing, ROTARY_PAIRING_HALF);

  // Output pairing filled in, no growth.
  const CRope plain = c_rope(plain_frequencies(), plain_layout());
  ROTARY_EXPECT_OK(rotary_rope_get_layout(plain.get(), &layout));
  EXPECT_EQ(layout.output_pairing, ROTARY_PAIRING_HALF);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(plain.get(), &f));
  EXPECT_EQ(f.growth, nullptr);
}

TEST(CRopeTest, OptionsAsCpp) {
  rotary_threads threads = rotary_threads_init(2);
  rotary_rope_options options = rotary_rope_options_init();
  options.precision = ROTARY_PRECISION_REFERENCE;
  options.cache_policy = ROTARY_CACHE_HYBRID;
  options.cache_positions = 50;
  options.threads = &threads;
  const CRope c = c_rope(plain_frequencies(), plain_layout(), &options);
  const Rope cpp(plain_frequencies(), plain_layout(),
                 {.precision = Precision::kReference,
                  .cache = {.policy = CachePolicy::kHybrid, .positions = 50},
                  .threads = {.count = 2}});
  // In the table, across its end, far beyond it. There the reference is not the exact angle.
  for (const std::int64_t first : {0, 47, 123'456'789}) {
    expect_same(c.get(), cpp, rotary_positions_range(first), Positions::range(first));
  }
  QueryAndKey exact;
  QueryAndKey reference;
  const rotary_positions far = rotary_positions_range(123'456'789);
  Rope(plain_frequencies(), plain_layout()).rotate(exact.q(), Positions::range(123'456'789));
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), reference.tensors().data(), nullptr, 1, &far));
  EXPECT_NE(exact.q_bytes, reference.q_bytes);

  threads.count = 99;  // was copied
  rotary_rope_options asked = rotary_rope_options_init();
  ROTARY_EXPECT_OK(rotary_rope_get_options(c.get(), &asked));
  EXPECT_EQ(asked.precision, ROTARY_PRECISION_REFERENCE);
  EXPECT_EQ(asked.cache_policy, ROTARY_CACHE_HYBRID);
  EXPECT_EQ(asked.cache_positions, 50);
  ASSERT_NE(asked.threads, nullptr);
  EXPECT_EQ(asked.threads->struct_size, sizeof(rotary_threads));
  EXPECT_EQ(asked.threads->count, 2);
  EXPECT_EQ(asked.threads->parallel_for, nullptr);

  // A rope made with what another one was made with.
  options = asked;
  options.cache_policy = ROTARY_CACHE_ALL;
  const CRope again = c_rope(plain_frequencies(), plain_layout(), &options);
  expect_same(again.get(), cpp, rotary_positions_range(10), Positions::range(10));
}

TEST(CRopeTest, InverseGrowthAsCpp) {
  const CRope c = c_rope(rich_frequencies(), rich_layout());
  rotary_rope* keys = nullptr;
  ROTARY_EXPECT_OK(rotary_rope_with_inverse_growth(c.get(), &keys));
  const CRope c_keys(keys);
  rotary_frequencies f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c_keys.get(), &f));
  EXPECT_THAT(std::vector<double>(f.growth, f.growth + 6),
              ElementsAreArray(with_inverse_growth(rich_frequencies()).growth));
  EXPECT_THAT(f.growth[0], DoubleEq(-0.01));
}

TEST(CRopeTest, CopiesWhatItIsGiven) {
  CRope c;
  {
    Frequencies f = plain_frequencies();
    c = c_rope(f, plain_layout());
    f.values.assign(f.values.size(), -1.0);
  }
  expect_same(c.get(), Rope(plain_frequencies(), plain_layout()), rotary_positions_range(3),
              Positions::range(3));
}

TEST(CRopeTest, FreeTakesNull) {
  rotary_rope_free(nullptr);
  rotary_model_free(nullptr);
  rotary_table_free(nullptr);
}

TEST(CVersionTest, IsThatOfTheHeaders) {
  EXPECT_EQ(rotary_c_api_version(), ROTARY_C_API_VERSION);
  EXPECT_STREQ(rotary_version(), ROTARY_VERSION_STRING);
}

TEST(CVersionTest, KnowsTheGpusThatCppKnows) {
  EXPECT_EQ(rotary_has_cuda(), has_cuda() ? 1 : 0);
  EXPECT_EQ(rotary_cuda_device_count(), cuda_device_count());
}

}  // namespace
}  // namespace rotary
