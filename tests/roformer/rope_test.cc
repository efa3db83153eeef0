// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of the model: every recipe, recipes that follow the length of each text, xPos.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/model/rotation.h"
#include "roformer/roformer_testing.h"
#include "roformer/rope_testing.h"

namespace rotary::roformer {
namespace {

using testing::HasSubstr;

// ---- Every recipe -------------------------------------------------------------------------------

class EveryRope : public testing::TestWithParam<NamedRope> {
 protected:
  static Inputs inputs() {
    const at::Tensor ids = ids_of(2, 24);
    return {.ids = ids, .labels = ids};
  }
};

TEST_P(EveryRope, LossFalls) {
  Config config = with_rope(GetParam());
  config.initializer_range = 0.05;
  const Model m = make(config);
  double first = 0.0;
  double loss = 0.0;
  for (int step = 0; step < 6; ++step) {
    m->zero_grad();
    const at::Tensor y = m->forward(inputs()).loss;
    y.backward();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& p : m->parameters()) {
      if (p.grad().defined()) p.sub_(0.5 * p.grad());
    }
    loss = y.item<double>();
    if (step == 0) first = loss;
  }
  EXPECT_LT(loss, first - 0.3);
}

TEST_P(EveryRope, SavedModelHasTheSameLogits) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("rope_" + GetParam().name);
  const at::NoGradGuard no_grad;
  const Model m = make(with_rope(GetParam()));
  save_model(folder, *m);
  const Model again = load_complete_model(folder);
  remove_tree(folder);
  const at::Tensor logits = m->forward(inputs()).logits;
  EXPECT_EQ(apart(again->forward(inputs()).logits, logits), 0.0);
  EXPECT_EQ(rope_text(again->config(), 0), rope_text(m->config(), 0));
  const Model plain = make(small(GetParam().task));
  EXPECT_GT(apart(plain->forward(inputs()).logits, logits), 1e-3);
}

TEST_P(EveryRope, ConfigRoundTrips) {
  const std::string json = to_json(with_rope(GetParam()));
  EXPECT_THAT(json, HasSubstr("rope_parameters"));
  EXPECT_EQ(to_json(parse_config(json, "config.json")), json);
}

// Fused operations compute the same with 16 bits.
TEST_P(EveryRope, FusedOperationsRotateAlike) {
  const at::NoGradGuard no_grad;
  const Model m = make(with_rope(GetParam()));
  const at::Tensor mask = at::ones({2, 24}, at::kLong);
  mask[1].narrow(0, 6, 18).zero_();
  const at::Tensor exact = m->forward({.ids = ids_of(2, 24), .mask = mask}).logits;
  m->set_compute_type(at::kBFloat16);
  const at::Tensor narrow = m->forward({.ids = ids_of(2, 24), .mask = mask}).logits;
  const at::Tensor used = mask.ne(0);
  const double scale = exact.abs().max().item<double>();
  EXPECT_LE(apart(narrow.index({used}), exact.index({used})), 0.03 * scale);
}

INSTANTIATE_TEST_SUITE_P(All, EveryRope, testing::ValuesIn(every_rope()),
                         [](const auto& one) { return one.param.name; });

// ---- Recipes that follow the length of each text ------------------------------------------------

class ByLength : public testing::TestWithParam<NamedRope> {};

TEST_P(ByLength, RowsOfABatchMatchSingleTexts) {
  const at::NoGradGuard no_grad;
  const Model m = make(with_rope(GetParam()));
  const at::Tensor ids = ids_of(3, 24);
  const std::vector<std::int64_t> lengths = {24, 6, 15};
  const at::Tensor mask = at::zeros({3, 24}, at::kLong);
  for (std::int64_t row = 0; row < 3; ++row) {
    mask[row].narrow(0, 0, lengths[static_cast<std::size_t>(row)]).fill_(1);
  }
  const at::Tensor batch = m->forward({.ids = ids, .mask = mask}).logits;
  for (std::int64_t row = 0; row < 3; ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    const at::Tensor alone =
        m->forward({.ids = ids.narrow(0, row, 1).narrow(1, 0, length)}).logits[0];
    EXPECT_LE(apart(batch[row].narrow(0, 0, length), alone), kRopeRounding) << row;
  }
}

TEST_P(ByLength, PackedSequencesMatchSingleTexts) {
  const at::NoGradGuard no_grad;
  const Model m = make(with_rope(GetParam()));
  const at::Tensor ids = ids_of(2, 24);
  const at::Tensor row = ids.flatten();
  const std::vector<std::int64_t> cuts = {0, 5, 30, 48};  // the second spans both rows
  const at::Tensor packed =
      m->forward({.ids = ids, .cu_seqlens = at::tensor(cuts, at::kLong).to(at::kInt)})
          .logits.flatten(0, 1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::int64_t length = cuts[i + 1] - cuts[i];
    const at::Tensor alone =
        m->forward({.ids = row.narrow(0, cuts[i], length).unsqueeze(0)}).logits[0];
    EXPECT_LE(apart(packed.narrow(0, cuts[i], length), alone), kRopeRounding) << i;
  }
}

TEST_P(ByLength, SelectedTokensMatchAllTokens) {
  const at::NoGradGuard no_grad;
  const Model m = make(with_rope(GetParam()));
  const at::Tensor tokens = at::tensor({3, 20, 25, 40}, at::kLong);
  const at::Tensor ids = ids_of(2, 24);
  for (const bool packed : {false, true}) {
    Inputs in{.ids = ids};
    if (packed) in.cu_seqlens = at::tensor({0, 5, 30, 48}, at::kInt);
    const at::Tensor all = m->roformer().forward(in).flatten(0, 1);
    EXPECT_LE(apart(m->roformer().forward_at(tokens, in), all.index_select(0, tokens)),
              kRopeRounding);
  }
}

// A text is no longer its own context.
TEST_P(ByLength, RopeContextIsTheSameForAllTexts) {
  const at::NoGradGuard no_grad;
  Config config = with_rope(GetParam());
  const at::Tensor ids = ids_of(1, 6);
  const at::Tensor own = make(config)->forward({.ids = ids}).logits;
  config.rope_context = 8;
  EXPECT_LE(apart(make(config)->forward({.ids = ids}).logits, own), 0.0);
  config.rope_context = 40;
  EXPECT_GT(apart(make(config)->forward({.ids = ids}).logits, own), 1e-3);
}

TEST_P(ByLength, CacheNeedsRopeContext) {
  const at::NoGradGuard no_grad;
  Config config = with_rope(GetParam());
  config.task = Task::kCausalLm;
  const at::Tensor ids = ids_of(1, 12);
  Cache refused;
  EXPECT_THAT(thrown([&] { make(config)->forward({.ids = ids, .cache = &refused}); }),
              HasSubstr("[RoFormer] a cache needs rope_context"));
  config.rope_context = 40;
  const Model m = make(config);
  Cache cache;
  const at::Tensor first = m->forward({.ids = ids.narrow(1, 0, 7), .cache = &cache}).logits;
  const at::Tensor rest = m->forward({.ids = ids.narrow(1, 7, 5), .cache = &cache}).logits;
  EXPECT_LE(apart(at::cat({first, rest}, 1), m->forward({.ids = ids}).logits), kRopeRounding);
}

TEST_P(ByLength, GradientsFlowThroughEveryRow) {
  const Model m = make(with_rope(GetParam()));
  const at::Tensor ids = ids_of(2, 24);
  const at::Tensor mask = at::ones({2, 24}, at::kLong);
  mask[1].narrow(0, 6, 18).zero_();
  const at::Tensor labels = at::where(mask.ne(0), ids, kIgnored);
  const auto grad = [&](const Inputs& in) {
    m->zero_grad();
    (m->forward(in).loss * static_cast<double>(in.labels->ne(kIgnored).sum().item<std::int64_t>()))
        .backward();
    return m->named_parameters()["roformer.encoder.layer.0.attention.self.query.weight"]
        .grad()
        .clone();
  };
  const auto alone = [&](std::int64_t row, std::int64_t length) {
    const at::Tensor one = ids.narrow(0, row, 1).narrow(1, 0, length);
    return grad({.ids = one, .labels = one});
  };
  const at::Tensor both = grad({.ids = ids, .mask = mask, .labels = labels});
  EXPECT_LE(apart(both, alone(0, 24) + alone(1, 6)), 1e-3 * both.abs().max().item<double>());
}

std::vector<NamedRope> ropes_by_length() {
  std::vector<NamedRope> some;
  for (const NamedRope& rope : every_rope()) {
    if (layer_ropes(with_rope(rope)).depend_on_context()) some.push_back(rope);
  }
  return some;
}
INSTANTIATE_TEST_SUITE_P(All, ByLength, testing::ValuesIn(ropes_by_length()),
                         [](const auto& one) { return one.param.name; });

TEST(RopesByLength, AreThree) { EXPECT_EQ(ropes_by_length().size(), 3); }

// ---- xPos ---------------------------------------------------------------------------------------

TEST(XposModel, CachedDecodingMatchesOnePass) {
  const at::NoGradGuard no_grad;
  Config config = small(Task::kCausalLm);
  config.position_encoding = "xpos";
  const Model m = make(config);
  const at::Tensor ids = ids_of(2, 12);
  Cache cache;
  const at::Tensor first = m->forward({.ids = ids.narrow(1, 0, 7), .cache = &cache}).logits;
  const at::Tensor rest = m->forward({.ids = ids.narrow(1, 7, 5), .cache = &cache}).logits;
  EXPECT_LE(apart(at::cat({first, rest}, 1), m->forward({.ids = ids}).logits), kRopeRounding);
}

// Scores depend on distances alone.
TEST(XposModel, IsInvariantUnderShifts) {
  const at::NoGradGuard no_grad;
  Config config = small(Task::kCausalLm);
  config.position_encoding = "xpos";
  const Model m = make(config);
  const at::Tensor ids = ids_of(1, 8);
  const at::Tensor shifted = at::cat({at::full({1, 5}, 3, at::kLong), ids}, 1);
  const at::Tensor mask = at::ones({1, 13}, at::kLong);
  mask[0].narrow(0, 0, 5).zero_();
  EXPECT_LE(apart(m->forward({.ids = shifted, .mask = mask}).logits.narrow(1, 5, 8),
                  m->forward({.ids = ids}).logits),
            kRopeRounding);
}

}  // namespace
}  // namespace rotary::roformer
