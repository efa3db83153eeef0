// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Files in the layouts of GLUE's, with sentences of our own.
#include "roformer/data/glue.h"

#include "roformer/roformer_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

class GlueTest : public ScratchTest {
 protected:
  /// Writes TASK/NAME.tsv.
  std::filesystem::path table(const std::string& folder, const std::string& name,
                              const std::string& bytes) const {
    std::filesystem::create_directories(path(folder));
    return file(folder + "/" + name + ".tsv", bytes);
  }
  static ExampleSet read(const std::filesystem::path& path) {
    const GlueTask* task = detect_glue_task(path);
    EXPECT_NE(task, nullptr) << path;
    return read_glue(path, *task);
  }
};

constexpr const char* kCola =
    "ab12\t1\t\tThe boat left the harbour.\n"
    "ab12\t0\t*\tThe boat \"left the.\n";
constexpr const char* kMrpc =
    "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    "1\t17\t18\tShe said \" no .\t\" No , \" she said .\r\n"
    "0\t19\t20\tIt rains .\tIt 's late .\r\n";
constexpr const char* kRte =
    "index\tsentence1\tsentence2\tlabel\n"
    "0\tA dog barks.\tAn animal barks.\tentailment\n"
    "1\tA dog barks.\tA cat barks.\tnot_entailment\n";
constexpr const char* kSst2 = "sentence\tlabel\nquite good \t1\nrather dull \t0\n";
constexpr const char* kStsb =
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    "0\tmain\tf\t2012\t0001\tnone\tnone\tA boat.\tA ship.\t4.250\n"
    "1\tmain\tf\t2012\t0002\tnone\tnone\tA boat.\tA cat.\t0\n";

TEST_F(GlueTest, ReadsEveryTaskAsItIs) {
  const ExampleSet cola = read(table("CoLA", "train", kCola));
  EXPECT_FALSE(cola.pairs);
  EXPECT_THAT(cola.labels, ElementsAre("0", "1"));
  ASSERT_EQ(cola.examples.size(), 2u) << "no header line";
  EXPECT_EQ(cola.examples[0].first, "The boat left the harbour.");
  EXPECT_EQ(cola.examples[0].label, 1);
  EXPECT_EQ(cola.examples[1].first, "The boat \"left the.") << "a quotation mark is a character";
  const ExampleSet mrpc = read(table("MRPC", "dev", kMrpc));
  EXPECT_TRUE(mrpc.pairs);
  EXPECT_EQ(mrpc.examples[0].first, "She said \" no .");
  EXPECT_EQ(mrpc.examples[0].second, "\" No , \" she said .");
  EXPECT_EQ(mrpc.examples[0].label, 1);
  const ExampleSet rte = read(table("RTE", "train", kRte));
  EXPECT_THAT(rte.labels, ElementsAre("entailment", "not_entailment"));
  EXPECT_EQ(rte.examples[1].second, "A cat barks.");
  const ExampleSet sst2 = read(table("SST-2", "train", kSst2));
  EXPECT_FALSE(sst2.pairs);
  EXPECT_EQ(sst2.examples[0].first, "quite good ");
  EXPECT_EQ(sst2.examples[1].label, 0);
  const ExampleSet stsb = read(table("STS-B", "train", kStsb));
  EXPECT_EQ(stsb.label_kind, LabelKind::kNumber);
  EXPECT_EQ(stsb.examples[0].number, 4.25);
  EXPECT_EQ(stsb.examples[1].second, "A cat.");
}

TEST_F(GlueTest, TestSetsHaveNoLabels) {
  const ExampleSet cola =
      read(table("CoLA", "test", "index\tsentence\n0\tThe boat left.\n1\tLeft boat the.\n"));
  EXPECT_EQ(cola.label_kind, LabelKind::kNone);
  ASSERT_EQ(cola.examples.size(), 2u) << "here the first line is a header";
  EXPECT_EQ(cola.examples[1].first, "Left boat the.");
  const ExampleSet mrpc =
      read(table("MRPC", "test", "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\ta\tb\n"));
  EXPECT_EQ(mrpc.label_kind, LabelKind::kNone);
  EXPECT_EQ(mrpc.examples[0].second, "b");
  const ExampleSet stsb = read(table("STS-B", "test",
                                     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
                                     "sentence1\tsentence2\n0\tm\tf\ty\to\tn\tn\ta\tb\n"));
  EXPECT_EQ(stsb.label_kind, LabelKind::kNone);
  EXPECT_EQ(stsb.examples[0].first, "a");
}

TEST_F(GlueTest, FindsTheTaskByFolderOrFirstLine) {
  EXPECT_EQ(find_glue_task("STS-B")->name, "sts-b");
  EXPECT_EQ(find_glue_task("stsb"), find_glue_task("sts-b"));
  EXPECT_EQ(find_glue_task("mnli"), nullptr);
  const auto task = [&](const std::filesystem::path& path) {
    const GlueTask* found = detect_glue_task(path);
    return std::string(found == nullptr ? "" : found->name);
  };
  table("MRPC", "train", kMrpc);
  EXPECT_EQ(task(path("MRPC")), "mrpc");
  EXPECT_EQ(task(path("MRPC") / ""), "mrpc");
  const std::vector<std::pair<std::string, std::string>> files = {
      {kCola, "cola"}, {kMrpc, "mrpc"}, {kRte, "rte"}, {kSst2, "sst-2"}, {kStsb, "sts-b"}};
  for (const auto& [bytes, name] : files) {
    const auto train = table("mine", "train", bytes);
    EXPECT_EQ(task(train), name);
    EXPECT_EQ(task(path("mine")), name);
  }
  EXPECT_EQ(task(table("mine", "train", "label\ttext_a\n1\tx\n")), "");
  EXPECT_EQ(task(table("mine", "train", "")), "");
  EXPECT_EQ(task(path("none")), "");
}

TEST_F(GlueTest, RejectsInvalidFilesWithTheirLine) {
  const auto message = [&](const char* folder, const std::string& bytes) {
    return thrown([&] { read(table(folder, "train", bytes)); });
  };
  EXPECT_THAT(message("CoLA", "a\t1\t\tx\na\t1\tx\n"),
              EndsWith("train.tsv: line 2: expected 4 columns, got 3"));
  EXPECT_THAT(message("CoLA", "one column\n"), EndsWith("line 1: expected 4 columns, got 1"));
  EXPECT_THAT(message("STS-B", std::string(kStsb) + "2\ta\tb\tc\td\te\tf\tg\th\thigh\n"),
              EndsWith("line 4: a label must be a finite number, got \"high\""));
  EXPECT_THAT(message("SST-2", "label\ttext\n1\tx\n"),
              EndsWith("line 1: no column \"sentence\"; there are \"label\", \"text\""));
  EXPECT_THAT(message("RTE", ""), EndsWith("no examples"));
}

}  // namespace
}  // namespace rotary::roformer
