// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Structs of other versions: shorter ones of older programs, longer ones of newer programs.

#include <cstddef>
#include <cstring>
#include <vector>

#include "c/c_testing.h"

namespace rotary::struct_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// The struct of a newer program.
template <typename T>
struct Longer {
  T known;
  std::uint64_t unknown = 0;

  explicit Longer(const T& value, std::uint64_t field = 0) : known(value), unknown(field) {
    known.struct_size = sizeof(Longer);
  }
};

constexpr double kValues[] = {1.0, 0.5, 0.25, 0.125};

rotary_head_layout half_layout() { return rotary_head_layout_init(8, ROTARY_PAIRING_HALF); }
rotary_frequencies four_pairs() { return rotary_frequencies_init(kValues, 4, 1); }

/// Status of making a rope of four pairs.
rotary_status make(const rotary_frequencies* frequencies, const rotary_head_layout* layout,
                   const rotary_rope_options* options, CRope* rope = nullptr) {
  rotary_rope* made = nullptr;
  const rotary_status status = rotary_rope_from_frequencies(frequencies, layout, options, &made);
  EXPECT_EQ(made != nullptr, status == ROTARY_OK);
  CRope owned(made);
  if (rope != nullptr) *rope = std::move(owned);
  return status;
}

CRope rope() {
  CRope made;
  const rotary_frequencies f = four_pairs();
  const rotary_head_layout layout = half_layout();
  EXPECT_EQ(make(&f, &layout, nullptr, &made), ROTARY_OK);
  return made;
}

TEST(StructTest, ShorterStructsAreZeroExtended) {
  // A program that knew struct_size and precision alone.
  const CRope c = [] {
    rotary_rope_options options = rotary_rope_options_init();
    options.struct_size = 8;
    options.precision = ROTARY_PRECISION_REFERENCE;
    options.cache_policy = 77;  // lies beyond
    options.cache_positions = -1;
    CRope made;
    const rotary_frequencies f = four_pairs();
    const rotary_head_layout layout = half_layout();
    ROTARY_EXPECT_OK(make(&f, &layout, &options, &made));
    return made;
  }();
  rotary_rope_options asked = rotary_rope_options_init();
  ROTARY_EXPECT_OK(rotary_rope_get_options(c.get(), &asked));
  EXPECT_EQ(asked.precision, ROTARY_PRECISION_REFERENCE);
  EXPECT_EQ(asked.cache_policy, ROTARY_CACHE_NONE);
  EXPECT_EQ(asked.cache_positions, 0);

  // Without growth and its origin.
  rotary_frequencies f = four_pairs();
  f.struct_size = offsetof(rotary_frequencies, growth);
  f.growth = kValues;
  CRope made;
  const rotary_head_layout layout = half_layout();
  ROTARY_EXPECT_OK(make(&f, &layout, nullptr, &made));
  rotary_frequencies asked_f = rotary_frequencies_init(nullptr, 0, 0);
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(made.get(), &asked_f));
  EXPECT_EQ(asked_f.growth, nullptr);
}

TEST(StructTest, ShorterStructsAreFilledInPart) {
  std::vector<unsigned char> memory(sizeof(rotary_frequencies), 0xAA);
  auto* f = reinterpret_cast<rotary_frequencies*>(memory.data());
  f->struct_size = offsetof(rotary_frequencies, scale);
  f->reserved = 0;
  const CRope c = rope();
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), f));
  EXPECT_EQ(f->struct_size, offsetof(rotary_frequencies, scale));
  EXPECT_EQ(f->pairs, 4);
  EXPECT_EQ(f->values[3], 0.125);
  memory.erase(memory.begin(), memory.begin() + offsetof(rotary_frequencies, scale));
  EXPECT_THAT(memory, Each(0xAA));
}

TEST(StructTest, AcceptsLongerStructsWithZeros) {
  rotary_threads threads = rotary_threads_init(1);
  const Longer<rotary_threads> longer_threads(threads);
  rotary_rope_options options = rotary_rope_options_init();
  options.threads = &longer_threads.known;
  const Longer f(four_pairs());
  const Longer layout(half_layout());
  const Longer longer_options(options);
  CRope c;
  ROTARY_EXPECT_OK(make(&f.known, &layout.known, &longer_options.known, &c));

  std::vector<float> x(8, 1.0F);
  const std::int64_t shape[] = {1, 1, 8};
  const Longer tensor(rotary_tensor_contiguous(x.data(), ROTARY_DTYPE_FLOAT32, 3, shape));
  const Longer positions(rotary_positions_range(3));
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), &tensor.known, nullptr, 1, &positions.known));
  EXPECT_NE(x[0], 1.0F);

  // Filled by the library: members that it does not know stay unchanged.
  Longer asked(rotary_frequencies_init(nullptr, 0, 0));
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &asked.known));
  EXPECT_EQ(asked.known.struct_size, sizeof(asked));
  EXPECT_EQ(asked.known.pairs, 4);
  EXPECT_EQ(asked.unknown, 0u);
}

TEST(StructTest, RejectsLongerStructsWithUnknownMembers) {
  const rotary_frequencies f = four_pairs();
  const rotary_head_layout layout = half_layout();
  const rotary_rope_options options = rotary_rope_options_init();
  const std::string function = "[rotary_rope_from_frequencies] ";
  const auto rejects = [&](rotary_status status, const char* name) {
    expect_failed(status, ROTARY_INVALID_ARGUMENT, function + name + ".struct_size is ",
                  " is not 0: a field that it cannot honour");
  };
  const Longer longer_f(f, 1);
  const Longer longer_layout(layout, std::uint64_t{1} << 63);
  const Longer longer_options(options, 1);
  rejects(make(&longer_f.known, &layout, &options), "frequencies");
  rejects(make(&f, &longer_layout.known, &options), "layout");
  rejects(make(&f, &layout, &longer_options.known), "options");
  rotary_rope_options with_threads = options;
  const Longer threads(rotary_threads_init(1), 1);
  with_threads.threads = &threads.known;
  rejects(make(&f, &layout, &with_threads), "threads");

  const CRope c = rope();
  Longer asked(layout, 1);
  expect_failed(rotary_rope_get_layout(c.get(), &asked.known), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_get_layout] layout.struct_size is ");
  EXPECT_THAT(rotary_last_error(), HasSubstr("this rotary knows 32 bytes, and byte 32 is not 0"));
}

TEST(StructTest, RejectsImpossibleSizes) {
  const rotary_frequencies f = four_pairs();
  const rotary_head_layout layout = half_layout();
  for (const std::uint32_t size : {0u, 4u, 7u, 33u, 4104u, 0xcdcdcdc8u, 0xffffffffu}) {
    rotary_rope_options options = rotary_rope_options_init();
    options.struct_size = size;
    expect_failed(make(&f, &layout, &options), ROTARY_INVALID_ARGUMENT,
                  "[rotary_rope_from_frequencies] options.struct_size must be the size of the "
                  "struct (32 bytes here), got " +
                      std::to_string(size));
  }
  // Also for structs that the library fills.
  rotary_model_rope named{};
  const CModel model = read_model("llama-3.1-8b.json");
  expect_failed(rotary_model_find_rope(model.get(), nullptr, &named), ROTARY_INVALID_ARGUMENT,
                "[rotary_model_find_rope] rope.struct_size must be the size of the struct",
                "got 0");
}

TEST(StructTest, RejectsNonZeroReserved) {
  const CRope c = rope();
  std::vector<float> x(8, 1.0F);
  const std::int64_t shape[] = {1, 1, 8};
  rotary_tensor tensor = rotary_tensor_contiguous(x.data(), ROTARY_DTYPE_FLOAT32, 3, shape);
  rotary_positions positions = rotary_positions_range(0);
  positions.reserved = 5;
  expect_failed(rotary_rope_rotate(c.get(), &tensor, nullptr, 1, &positions),
                ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_rotate] positions.reserved must be 0, got 5");
  positions.reserved = 0;
  tensor.reserved = 1;
  expect_failed(rotary_rope_rotate(c.get(), &tensor, nullptr, 1, &positions),
                ROTARY_INVALID_ARGUMENT, "[rotary_rope_rotate] in.reserved must be 0, got 1");
  EXPECT_THAT(x, Each(1.0F));
}

TEST(StructTest, ArrayStrideIsTheStructSize) {
  QueryAndKey expected;
  Rope({.pairs = 4, .values = {std::begin(kValues), std::end(kValues)}},
       {.head_dim = 8, .pairing = Pairing::kHalf})
      .rotate({expected.q(), expected.k()}, Positions::range(5));

  const CRope c = rope();
  QueryAndKey got;
  const rotary_positions positions = rotary_positions_range(5);
  const Longer<rotary_tensor> longer[] = {Longer(c_tensor(got.q())), Longer(c_tensor(got.k()))};
  ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), &longer[0].known, nullptr, 2, &positions));
  EXPECT_TRUE(got == expected);

  // in and out may be of different versions, the elements of one array not.
  QueryAndKey in;
  QueryAndKey out(DType::kFloat32, 2);
  const Longer<rotary_tensor> longer_out[] = {Longer(c_tensor(out.q())), Longer(c_tensor(out.k()))};
  ROTARY_EXPECT_OK(
      rotary_rope_rotate(c.get(), in.tensors().data(), &longer_out[0].known, 2, &positions));
  EXPECT_TRUE(out == expected);

  auto mixed = in.tensors();
  mixed[1].struct_size -= 8;
  expect_failed(rotary_rope_rotate(c.get(), mixed.data(), nullptr, 2, &positions),
                ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_rotate] in[1].struct_size must be that of the first of its array, "
                "104, got 96");
  EXPECT_TRUE(in == QueryAndKey());
}

// ---- The structs of version 1 -------------------------------------------------------------------

struct TensorV1 {
  std::uint32_t struct_size;
  std::int32_t dtype;
  void* data;
  std::int32_t rank;
  std::int32_t device_type;
  std::int32_t device_index;
  std::uint32_t reserved;
  std::int64_t shape[4];
  std::int64_t strides[4];
};
struct PositionsV1 {
  std::uint32_t struct_size;
  std::int32_t kind;
  std::int32_t on_all_axes;
  std::uint32_t reserved;
  std::int64_t start;
  const std::int64_t* first;
  std::int64_t num_first;
  const std::int64_t* boundaries;
  std::int64_t num_boundaries;
  const rotary_tensor* ids;
};
struct GradientsV1 {
  std::uint32_t struct_size;
  std::uint32_t reserved;
  double* frequencies;
  std::int64_t num_frequencies;
  const rotary_tensor* positions;
  double* scale;
};
static_assert(sizeof(TensorV1) == offsetof(rotary_tensor, out_scale));
static_assert(sizeof(PositionsV1) == offsetof(rotary_positions, first_view));
static_assert(sizeof(GradientsV1) == offsetof(rotary_gradients, workspace));

/// The struct of a program of version 1, followed by other memory.
template <typename V1, typename T>
class Old {
 public:
  explicit Old(const T& value) {
    std::memcpy(&old_, &value, sizeof(V1));
    old_.struct_size = sizeof(V1);
  }
  const T* get() const { return reinterpret_cast<const T*>(&old_); }

 private:
  V1 old_{};
  std::uint64_t not_a_part_[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
};
using OldPositions = Old<PositionsV1, rotary_positions>;
using OldGradients = Old<GradientsV1, rotary_gradients>;

/// The stride of an array is the struct size that the program knows.
std::vector<TensorV1> old_tensors(const std::vector<rotary_tensor>& tensors) {
  std::vector<TensorV1> old(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(&old[i], &tensors[i], sizeof(TensorV1));
    old[i].struct_size = sizeof(TensorV1);
  }
  return old;
}
const rotary_tensor* as_tensors(const std::vector<TensorV1>& tensors) {
  return reinterpret_cast<const rotary_tensor*>(tensors.data());
}

TEST(StructTest, Version1Rotates) {
  const CRope c = rope();
  std::vector<std::int32_t> numbers{5, 4, 3, 2, 1};
  const std::vector<TensorV1> old_ids = old_tensors({c_row(numbers)});
  const std::int64_t rows[] = {7, -8};
  const std::int64_t boundaries[] = {0, 2, 5};
  for (const rotary_positions& positions :
       {rotary_positions_range(5), rotary_positions_range_rows(rows, 2),
        rotary_positions_at_rows(rows, 2), rotary_positions_ids(as_tensors(old_ids)),
        rotary_positions_packed(boundaries, 2, rows),
        rotary_positions_packed_at(boundaries, 2, rows)}) {
    SCOPED_TRACE(positions.kind);
    QueryAndKey expected;
    ROTARY_EXPECT_OK(
        rotary_rope_rotate(c.get(), expected.tensors().data(), nullptr, 2, &positions));

    const OldPositions old_positions(positions);
    QueryAndKey in;
    QueryAndKey out(DType::kFloat32, 2);
    const std::vector<TensorV1> old_in = old_tensors(in.tensors());
    const std::vector<TensorV1> old_out = old_tensors(out.tensors());
    ROTARY_EXPECT_OK(rotary_rope_rotate(c.get(), as_tensors(old_in), as_tensors(old_out), 2,
                                        old_positions.get()));
    EXPECT_TRUE(out == expected);
    ROTARY_EXPECT_OK(
        rotary_rope_rotate(c.get(), as_tensors(old_in), nullptr, 2, old_positions.get()));
    EXPECT_TRUE(in == expected);
  }
}

TEST(StructTest, Version1HasGradients) {
  const CRope c = rope();
  const rotary_positions positions = rotary_positions_range(5);
  QueryAndKey in;
  QueryAndKey grad_out(DType::kFloat32, 2);
  std::vector<std::vector<double>> frequencies(2, std::vector<double>(4));
  double scales[] = {0.0, 0.0};
  for (const std::size_t i : {0u, 1u}) {
    rotary_gradients gradients = rotary_gradients_init();
    gradients.frequencies = frequencies[i].data();
    gradients.num_frequencies = 4;
    gradients.scale = &scales[i];
    const OldGradients old(gradients);
    ROTARY_EXPECT_OK(rotary_rope_gradient(c.get(), in.tensors().data(), grad_out.tensors().data(),
                                          nullptr, 2, &positions, i == 0 ? &gradients : old.get()));
  }
  EXPECT_EQ(frequencies[0], frequencies[1]);
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_NE(scales[0], 0.0);
}

}  // namespace
}  // namespace rotary::struct_test
