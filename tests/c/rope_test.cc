// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every function on ropes gives the bits of the C++ API.

#include <string>
#include <utility>
#include <vector>

#include "c/ropes.h"
#include "rotary/model.h"

namespace rotary::rope_test {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAreArray;

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

TEST(CRopeTest, ViewsMixWithLists) {
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

  // Gradients of parameters only, of tensors only, of one tensor only.
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

  // The CPU does not use it.
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
  int no_stream = 0;  // unused on the CPU
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

}  // namespace
}  // namespace rotary::rope_test
