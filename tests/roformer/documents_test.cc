// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/documents.h"

#include "roformer/roformer_testing.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DocumentsTest = ScratchTest;

std::vector<std::string> all_of(const Corpus& corpus) {
  DocumentReader reader(corpus);
  std::vector<std::string> out;
  for (std::string document; reader.next(document);) out.push_back(document);
  return out;
}

TEST_F(DocumentsTest, BlankLinesSeparateDocuments) {
  const Corpus corpus{
      .files = {file("a", "\n\none\nmore\n\n \t\r\ntwo\r\n"), file("b", ""), file("c", "three")}};
  EXPECT_THAT(all_of(corpus), ElementsAre("one\nmore\n", "two\r\n", "three"));
}

TEST_F(DocumentsTest, EachLineIsADocument) {
  const Corpus corpus{.files = {file("a", "one\n\ntwo\r\n  \nthree")},
                      .format = DocumentFormat::kLines};
  EXPECT_THAT(all_of(corpus), ElementsAre("one", "two", "three"));
}

TEST_F(DocumentsTest, AFieldOfEachObject) {
  const Corpus corpus{.files = {file("a",
                                     "{\"id\": 1, \"body\": \"one\\ntwo\"}\n\n{\"body\": \"\"}\n"
                                     "{\"body\": \"三\"}")},
                      .format = DocumentFormat::kJsonl,
                      .field = "body"};
  EXPECT_THAT(all_of(corpus), ElementsAre("one\ntwo", "三"));
}

TEST_F(DocumentsTest, RejectsInvalidLinesWithTheirOffset) {
  const auto error_of = [&](const std::string& text) {
    return thrown(
        [&] { all_of({.files = {file("a.jsonl", text)}, .format = DocumentFormat::kJsonl}); });
  };
  const std::string expected =
      "a.jsonl: expected a JSON object with the text \"text\" in a line (at byte ";
  EXPECT_THAT(error_of("{\"text\": \"x\"}\n{\"text\": 1}\n"), HasSubstr(expected + "14)"));
  EXPECT_THAT(error_of("{\"text\": \"x\"\n"), HasSubstr(expected + "0)"));
  EXPECT_THAT(error_of("[1]\n"), HasSubstr(expected + "0)"));
}

TEST_F(DocumentsTest, SplitsLongDocumentsAndRejectsLongLines) {
  const std::string line(99, 'x');
  Corpus corpus{.files = {file("a", line + "\n" + line + "\n" + line + "\n")},
                .max_document_bytes = 150};
  EXPECT_THAT(all_of(corpus), ElementsAre(line + "\n" + line + "\n", line + "\n"));
  const std::string wide(200000, 'x');
  corpus.files = {file("b", "short\n" + wide + "\n")};
  corpus.max_document_bytes = 70000;
  EXPECT_THAT(thrown([&] { all_of(corpus); }),
              HasSubstr("b: a line of more than 70000 bytes (at byte 6)"));
  corpus.max_document_bytes = 1 << 20;
  EXPECT_THAT(all_of(corpus), ElementsAre("short\n" + wide + "\n"));
}

TEST_F(DocumentsTest, SeeksToEveryPosition) {
  const Corpus corpus{
      .files = {file("a", "one\nmore\n\n\ntwo\n"), file("b", "\n"), file("c", "three\n\nfour")}};
  DocumentReader reader(corpus);
  std::vector<DocumentPosition> positions;
  const std::vector<std::string> documents = all_of(corpus);
  std::string document;
  do positions.push_back(reader.position());
  while (reader.next(document));
  ASSERT_EQ(positions.size(), 5u);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    DocumentReader again(corpus);
    again.seek(positions[i]);
    for (std::size_t k = i; k < documents.size(); ++k) {
      ASSERT_TRUE(again.next(document));
      EXPECT_EQ(document, documents[k]);
    }
    EXPECT_FALSE(again.next(document));
    EXPECT_FALSE(again.next(document));
  }
}

TEST_F(DocumentsTest, RejectsUnreadableFiles) {
  EXPECT_THROW(DocumentReader({}), std::invalid_argument);
  EXPECT_THAT(thrown([&] { DocumentReader({.files = {path("none.txt")}}); }),
              HasSubstr("none.txt: No such file"));
  EXPECT_THAT(thrown([&] { DocumentReader({.files = {path("")}}); }), HasSubstr("directory"));
  DocumentReader reader({.files = {file("a", "one\n"), path("gone")}});
  std::string document;
  EXPECT_TRUE(reader.next(document));
  EXPECT_THROW(reader.next(document), IoError);
  EXPECT_THAT(thrown([&] { reader.seek({0, 99}); }), HasSubstr("no document begins here"));
  EXPECT_THROW(reader.seek({3, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace rotary::roformer
