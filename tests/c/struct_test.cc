// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Structs of other versions: shorter ones of older programs, longer ones of newer programs.

#include <cstddef>
#include <cstring>
#include <vector>

#include "c/c_testing.h"

namespace rotary {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// The struct as a newer program might have it.
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

/// Makes a rope of the four pairs; its status.
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

TEST(StructTest, ShorterIsZeroBeyond) {
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

TEST(StructTest, OfAShorterOneOnlyItsPartIsFilled) {
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

TEST(StructTest, LongerIsTakenIfZeroBeyond) {
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

  // To be filled: what the library does not know stays as it is.
  Longer asked(rotary_frequencies_init(nullptr, 0, 0));
  ROTARY_EXPECT_OK(rotary_rope_get_frequencies(c.get(), &asked.known));
  EXPECT_EQ(asked.known.struct_size, sizeof(asked));
  EXPECT_EQ(asked.known.pairs, 4);
  EXPECT_EQ(asked.unknown, 0u);
}

TEST(StructTest, LongerIsRefusedIfNotZeroBeyond) {
  const rotary_frequencies f = four_pairs();
  const rotary_head_layout layout = half_layout();
  const rotary_rope_options options = rotary_rope_options_init();
  const std::string function = "[rotary_rope_from_frequencies] ";
  const auto refused = [&](rotary_status status, const char* name) {
    expect_failed(status, ROTARY_INVALID_ARGUMENT, function + name + ".struct_size is ",
                  " is not 0: a field that it cannot honour");
  };
  const Longer longer_f(f, 1);
  const Longer longer_layout(layout, std::uint64_t{1} << 63);
  const Longer longer_options(options, 1);
  refused(make(&longer_f.known, &layout, &options), "frequencies");
  refused(make(&f, &longer_layout.known, &options), "layout");
  refused(make(&f, &layout, &longer_options.known), "options");
  rotary_rope_options with_threads = options;
  const Longer threads(rotary_threads_init(1), 1);
  with_threads.threads = &threads.known;
  refused(make(&f, &layout, &with_threads), "threads");

  const CRope c = rope();
  Longer asked(layout, 1);
  expect_failed(rotary_rope_get_layout(c.get(), &asked.known), ROTARY_INVALID_ARGUMENT,
                "[rotary_rope_get_layout] layout.struct_size is ");
  EXPECT_THAT(rotary_last_error(), HasSubstr("this rotary knows 32 bytes, and byte 32 is not 0"));
}

TEST(StructTest, SizesThatNoVersionHas) {
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
  // To be filled, too.
  rotary_model_rope named{};
  const CModel model = read_model("llama-3.1-8b.json");
  expect_failed(rotary_model_find_rope(model.get(), nullptr, &named), ROTARY_INVALID_ARGUMENT,
                "[rotary_model_find_rope] rope.struct_size must be the size of the struct",
                "got 0");
}

TEST(StructTest, Reserved) {
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

TEST(StructTest, ArraysStepByTheSizeOfTheirElements) {
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
                "96, got 88");
  EXPECT_TRUE(in == QueryAndKey());
}

}  // namespace
}  // namespace rotary
