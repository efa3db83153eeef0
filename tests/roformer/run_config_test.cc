// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The config of a run: files, flags and what they reject.
#include "roformer/train/run_config.h"

#include "roformer_testing.h"

namespace rotary::roformer {
namespace {

using RunConfigTest = ScratchTest;

TEST_F(RunConfigTest, ConfigsRoundTrip) {
  const auto file_ = file("run.json", R"({"model": {"hidden_size": 64}, "corpus": "a.txt",
      "stages": "512x256x200, 1536x64x10", "packed": false, "learning_rate": 2})");
  RunConfig config = read_run_config(file_);
  EXPECT_EQ(config.model, "{\"hidden_size\":64}");
  EXPECT_THAT(config.corpus, testing::ElementsAre("a.txt"));
  EXPECT_THAT(config.stages, testing::ElementsAre(Stage{512, 256, 200}, Stage{1536, 64, 10}));
  EXPECT_FALSE(config.packed);
  EXPECT_EQ(config.steps(), 210);
  set_from_text(keys_of(config), "whole_words", std::vector<std::string>{"off"});
  set_from_text(keys_of(config), "corpus", std::vector<std::string>{"b", "c,d"});
  const RunConfig again = read_run_config(file("again.json", to_json(config)));
  EXPECT_EQ(to_json(again), to_json(config));
  EXPECT_THAT(again.corpus, testing::ElementsAre("b", "c,d"));
}

TEST_F(RunConfigTest, NamesWrongConfigs) {
  const auto read = [&](const std::string& text) {
    return thrown([&] { read_run_config(file("run.json", text)); });
  };
  EXPECT_THAT(read(R"({"learnig_rate": 1})"),
              testing::HasSubstr("run.json: there is no key \"learnig_rate\"; did you mean "
                                 "\"learning_rate\"?"));
  EXPECT_THAT(read(R"({"mask_rate": 1.5})"),
              testing::HasSubstr("run.json: mask_rate must be from 1e-06 to 1, got 1.5"));
  EXPECT_THAT(read(R"({"schedule": "step"})"),
              testing::HasSubstr("schedule must be one of constant|linear|cosine, got \"step\""));
  EXPECT_THAT(read(R"({"keep": 2.5})"), testing::HasSubstr("keep must be a whole number, got 2.5"));
  EXPECT_THAT(read(R"({"stages": "512x256"})"),
              testing::HasSubstr("stages must be \"LENGTHxROWSxSTEPS"));
  EXPECT_THAT(read(R"({"stages": "512x0x1"})"),
              testing::HasSubstr("stages must be of lengths from 3 on"));
  EXPECT_THAT(read("{"), testing::HasSubstr("run.json: "));
  EXPECT_THAT(thrown([] { read_run_config("no/such.json"); }),
              testing::HasSubstr("no/such.json: "));
  RunConfig config;
  EXPECT_EQ(thrown([&] { check_run_config(config, 1); }),
            "there is no corpus: name one with corpus");
  config.corpus = {"a"};
  EXPECT_EQ(thrown([&] { check_run_config(config, 3); }),
            "a batch of 256 rows is not a multiple of 3 processes");
}

}  // namespace
}  // namespace rotary::roformer
