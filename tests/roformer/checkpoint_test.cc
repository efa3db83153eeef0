// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Checkpoints: round trips, and one-line errors for bad files.
#include "roformer/checkpoint/checkpoint.h"

#include <ATen/Functions.h>

#include <filesystem>

#include "roformer/checkpoint/convert.h"
#include "roformer/roformer_testing.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

fs::path checkpoint(const std::string& name) { return golden("checkpoints") / name; }

class CheckpointTest : public ScratchTest {
 protected:
  /// The small masked LM as a folder, in shards of at most so many bytes.
  fs::path folder(std::int64_t shard = 1 << 30) {
    const fs::path target = path("model");
    save_model(target, *load_complete_model(checkpoint("mlm-small.safetensors")),
               {.max_shard_bytes = shard});
    return target;
  }
  /// With a key of its config changed.
  std::string refusal(const std::string& from, const std::string& to) {
    const fs::path config = folder() / "config.json";
    std::string text = read_file(config);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_file(config, text.replace(at, from.size(), to));
    return thrown([&] { load_complete_model(path("model")); });
  }
};

void expect_same(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
  }
}

TEST_F(CheckpointTest, WritesTheSameTensorsAsTransformers) {
  // The position table, too: transformers computes it in float64.
  expect_same(read_weights(checkpoint("mlm-small.safetensors")),
              read_weights(folder() / "model.safetensors"));
  EXPECT_THAT(read_file(path("model") / "config.json"), HasSubstr("\"transformers_version\""));
}

TEST_F(CheckpointTest, ShardsRoundTrip) {
  const fs::path target = folder(100'000);
  EXPECT_TRUE(fs::exists(target / "model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(target / "model-00001-of-00006.safetensors"));
  EXPECT_FALSE(fs::exists(target / "model.safetensors"));
  expect_same(read_weights(checkpoint("mlm-small.safetensors")),
              weights_of(*load_complete_model(target)));
  // A later save in one file removes the shards.
  folder();
  EXPECT_FALSE(fs::exists(target / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(target / "model-00001-of-00006.safetensors"));
}

TEST_F(CheckpointTest, SaveKeepsOtherFilesAndLeavesNoTemporaryOnes) {
  write_file(folder() / "vocab.txt", "[PAD]\n");
  folder();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path("model"))) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("config.json", "model.safetensors", "vocab.txt"));
  for (const auto& entry : fs::directory_iterator(path("model").parent_path())) {
    EXPECT_EQ(entry.path().filename(), "model");
  }
}

TEST_F(CheckpointTest, FailedSaveKeepsTheOldOne) {
  const fs::path target = folder();
  const std::string before = read_file(target / "model.safetensors");
  TensorMap broken = read_weights(target / "model.safetensors");
  broken["complex"] = at::zeros({2}, at::kComplexFloat);
  const Config config = read_config(target / "config.json");
  EXPECT_THAT(thrown([&] { write_checkpoint(target, config, broken); }), HasSubstr("has no"));
  EXPECT_EQ(read_file(target / "model.safetensors"), before);
  EXPECT_THAT(thrown([&] { write_checkpoint(path("new"), config, broken); }), HasSubstr("has no"));
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(CheckpointTest, OtherTasksReportWhatIsMissingAndUnused) {
  const Loaded loaded = load_model(checkpoint("mlm-small.safetensors"), Task::kTokenClassification);
  EXPECT_THAT(loaded.report.missing, ElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_THAT(loaded.report.unused,
              ElementsAre("cls.predictions.bias", "cls.predictions.transform.LayerNorm.bias",
                          "cls.predictions.transform.LayerNorm.weight",
                          "cls.predictions.transform.dense.bias",
                          "cls.predictions.transform.dense.weight"));
}

TEST_F(CheckpointTest, TiedTensorsAndPrefixes) {
  TensorMap tensors = read_weights(checkpoint("mlm-small.safetensors"));
  const Model model = make_model(read_config(checkpoint("mlm-small.config.json")));
  const std::string words = "roformer.embeddings.word_embeddings.weight";
  tensors["cls.predictions.decoder.weight"] = tensors[words];
  LoadReport report = load_weights(*model, tensors, "here");
  EXPECT_THAT(report.tied, ElementsAre("cls.predictions.decoder.weight"));
  EXPECT_THAT(report.unused, IsEmpty());
  // Either name works, and so does an encoder without prefix.
  tensors.erase(words);
  EXPECT_THAT(load_weights(*model, tensors, "here").missing, IsEmpty());
  TensorMap bare;
  for (const auto& [name, tensor] : tensors) {
    bare[name.starts_with("roformer.") ? name.substr(9) : name] = tensor;
  }
  EXPECT_THAT(load_weights(*model, bare, "here").missing, IsEmpty());
}

TEST_F(CheckpointTest, EncoderHasNoPrefix) {
  const Loaded loaded = load_model(checkpoint("mlm-small.safetensors"), Task::kEncoder);
  const TensorMap tensors = weights_of(*loaded.model);
  EXPECT_TRUE(tensors.contains("embeddings.word_embeddings.weight"));
  EXPECT_TRUE(tensors.contains("encoder.embed_positions.weight"));
}

// ---- Bad files ----------------------------------------------------------------------------------

TEST_F(CheckpointTest, NamesTruncatedShard) {
  const fs::path target = folder(100'000);
  const fs::path shard = target / "model-00003-of-00006.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 100);
  EXPECT_THAT(thrown([&] { load_complete_model(target); }),
              AllOf(HasSubstr(shard.string()), HasSubstr("reach beyond")));
  fs::remove(shard);
  EXPECT_THAT(thrown([&] { load_complete_model(target); }), HasSubstr(shard.string()));
}

TEST_F(CheckpointTest, RejectsInconsistentIndex) {
  const fs::path index = folder(100'000) / "model.safetensors.index.json";
  const std::string text = read_file(index);
  const auto refusal_of = [&](const std::string& json) {
    write_file(index, json);
    return thrown([&] { load_complete_model(path("model")); });
  };
  std::string other = text;
  other.replace(other.find("cls.predictions.bias"), 20, "cls.predictions.boss");
  EXPECT_THAT(refusal_of(other), HasSubstr("the index promises tensor \"cls.predictions.boss\""));
  EXPECT_THAT(refusal_of(R"({"weight_map": {"a": "../model.safetensors"}})"),
              HasSubstr("weight_map must name files of this folder"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("not an index"));
}

TEST_F(CheckpointTest, NamesMissingTensor) {
  TensorMap tensors = read_weights(checkpoint("mlm-small.safetensors"));
  tensors.erase("roformer.encoder.layer.1.output.dense.bias");
  write_checkpoint(path("model"), read_config(checkpoint("mlm-small.config.json")), tensors);
  EXPECT_THAT(thrown([&] { load_complete_model(path("model")); }),
              HasSubstr("tensor \"roformer.encoder.layer.1.output.dense.bias\" is missing"));
}

TEST_F(CheckpointTest, NamesMissingFiles) {
  EXPECT_THAT(thrown([&] { load_model(path("nowhere")); }), HasSubstr("no such folder or file"));
  const fs::path target = folder();
  fs::remove(target / "config.json");
  EXPECT_THAT(thrown([&] { load_model(target); }), HasSubstr("there is no config.json"));
  EXPECT_THAT(thrown([&] { load_model(file("lonely.safetensors", "")); }),
              HasSubstr("neither lonely.config.json nor config.json beside it"));
}

TEST_F(CheckpointTest, RejectsWrongConfigs) {
  EXPECT_THAT(refusal("\"hidden_size\": 64", "\"hidden_size\": 56"),
              AllOf(HasSubstr("tensor \""), HasSubstr("is [64, 64]"),
                    HasSubstr("wants real numbers [56, 56]")));
  EXPECT_THAT(refusal("\"hidden_size\": 64", "\"hidden_size\": \"64\""),
              HasSubstr("config.json: hidden_size must be a whole number, got \"64\""));
  EXPECT_THAT(refusal("\"num_attention_heads\": 4", "\"num_attention_heads\": 5"),
              HasSubstr("hidden_size must be a multiple of num_attention_heads, 5, got 64"));
  EXPECT_THAT(refusal("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\""),
              HasSubstr("hidden_act must be one of gelu, "));
  EXPECT_THAT(refusal("RoFormerForMaskedLM", "LlamaForCausalLM"),
              HasSubstr("architectures must be one of RoFormerModel, "));
  EXPECT_THAT(refusal("RoFormerForMaskedLM", "RoFormerForMultipleChoice"),
              HasSubstr(", got \"RoFormerForMultipleChoice\""));
  EXPECT_THAT(refusal("\"add_cross_attention\": false", "\"add_cross_attention\": true"),
              HasSubstr("config.json: add_cross_attention must be false, got true"));
  EXPECT_THAT(refusal("\"model_type\": \"roformer\"", "\"model_type\": \"llama\""),
              HasSubstr("model_type must be \"roformer\" or \"bert\", got \"llama\""));
  EXPECT_THAT(refusal("\"hidden_dropout_prob\": 0.0", "\"hidden_dropout_prob\": 1.5"),
              HasSubstr("hidden_dropout_prob must be at least 0 and below 1, got 1.5"));
  EXPECT_THAT(refusal("{", "["), HasSubstr("config.json: not valid JSON (at byte "));
}

TEST(Config, KeepsUnknownKeys) {
  const Config config = parse_config(R"({"hidden_size": 24, "num_attention_heads": 2,
      "my_key": {"a": [1, null]}, "position_encoding": "rope+alibi", "use_bias": false,
      "norm_type": "rms_norm", "id2label": {"0": "no", "1": "yes", "2": "maybe"}})",
                                     "here");
  EXPECT_EQ(config.num_labels, 3);
  const Config again = parse_config(to_json(config), "there");
  EXPECT_EQ(to_json(again), to_json(config));
  EXPECT_THAT(to_json(again), AllOf(HasSubstr("my_key"), HasSubstr("maybe")));
  EXPECT_EQ(again.position_encoding, "rope+alibi");
  EXPECT_EQ(again.norm_type, NormType::kRms);
}

// ---- Conversion to RoPE -------------------------------------------------------------------------

TEST_F(CheckpointTest, ReplacesPositionsByRope) {
  for (const std::string encoding : {"learned", "sinusoidal"}) {
    Config config = read_config(checkpoint("mlm-small.config.json"));
    config.position_encoding = encoding;
    const Model before = make_model(config);
    save_model(path(encoding), *before);
    const Conversion result = convert_to_rope(path(encoding));
    EXPECT_EQ(result.config.position_encoding, "rope");
    TensorMap expected = weights_of(*before);
    if (encoding == "learned") {
      ASSERT_EQ(result.dropped.size(), 1U);
      EXPECT_EQ(result.dropped[0].name, "roformer.encoder.encoding.weight");
      EXPECT_EQ(expected.erase("roformer.encoder.encoding.weight"), 1U);
    } else {
      EXPECT_THAT(result.dropped, IsEmpty());  // the table follows from the config
    }
    TensorMap got = result.tensors;
    EXPECT_EQ(got.erase("roformer.encoder.embed_positions.weight"), 1U);
    expect_same(expected, got);
    write_checkpoint(path(encoding + "-rope"), result.config, result.tensors);
    const Model after = load_complete_model(path(encoding + "-rope"));
    const Inputs inputs{.ids = at::arange(2, 14).view({1, 12})};
    before->eval();
    EXPECT_FALSE(at::allclose(before->forward(inputs).logits, after->forward(inputs).logits));
  }
}

TEST_F(CheckpointTest, KeepsOtherEncodings) {
  Config config = read_config(checkpoint("mlm-small.config.json"));
  config.position_encoding = "alibi";
  save_model(path("alibi"), *make_model(config));
  EXPECT_THAT(thrown([&] { convert_to_rope(path("alibi")); }),
              HasSubstr("position_encoding must be \"learned\" or \"sinusoidal\" to be replaced"));
}

}  // namespace
}  // namespace rotary::roformer
