// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/io_testing.h"
#include "rotary/io.h"

namespace rotary::safetensors_test {
namespace {

using ::testing::HasSubstr;

std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

const std::string kQ = entry("q", "F32", "[2]", "[0,8]");
const std::string kGood = safetensors("{" + kQ + "}", "abcdefgh");

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirOffsets) {
  const std::string bytes = safetensors("{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}," +
                                            entry("second", "I64", "[1,1]", "[8,16]") + "," +
                                            entry("none", "F16", "[0,3]", "[8,8]") + "," +
                                            entry("first", "BF16", "[2,2]", "[0,8]") + "," +
                                            entry("scalar", "F64", "[]", "[16,24]") + "}     ",
                                        "abcdefghABCDEFGH12345678");
  const std::vector<Tensor> tensors = parse_safetensors(bytes, "x.safetensors");
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "first");
  EXPECT_EQ(tensors[0].dtype, DType::kBFloat16);
  EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(bytes_of(tensors[0].bytes), "abcdefgh");
  EXPECT_EQ(tensors[1].name, "none");
  EXPECT_TRUE(tensors[1].bytes.empty());
  EXPECT_EQ(tensors[2].name, "second");
  EXPECT_EQ(bytes_of(tensors[2].bytes), "ABCDEFGH");
  EXPECT_EQ(tensors[3].name, "scalar");
  EXPECT_TRUE(tensors[3].shape.empty());
}

TEST(SafetensorsTest, ReadsEveryDtype) {
  struct Case {
    const char* name;
    DType dtype;
    int size;
  };
  for (const auto& [name, dtype, size] :
       {Case{"F16", DType::kFloat16, 2}, Case{"BF16", DType::kBFloat16, 2},
        Case{"F32", DType::kFloat32, 4}, Case{"F64", DType::kFloat64, 8},
        Case{"I32", DType::kInt32, 4}, Case{"I64", DType::kInt64, 8}}) {
    const std::string end = std::to_string(2 * size);
    const std::string data = std::string("0123456789abcdef").substr(0, 2 * std::size_t(size));
    const std::vector<Tensor> tensors = parse_safetensors(
        safetensors("{" + entry("x", name, "[2]", "[0," + end + "]") + "}", data), "");
    EXPECT_EQ(tensors.at(0).dtype, dtype);
    EXPECT_EQ(bytes_of(tensors.at(0).bytes), data);
  }
}

TEST(SafetensorsTest, AcceptsAnyTextAsName) {
  const std::string bytes =
      safetensors("{" + entry("\xc3\xa9\\u0000\\\"", "F32", "[0]", "[0,0]") + "}", "");
  EXPECT_EQ(parse_safetensors(bytes, "").at(0).name, std::string("\xc3\xa9\0\"", 4));
}

TEST(SafetensorsTest, AFileWithoutTensors) {
  EXPECT_TRUE(parse_safetensors(safetensors("{}", ""), "").empty());
  EXPECT_TRUE(parse_safetensors(safetensors("{\"__metadata__\":{}}", ""), "").empty());
}

struct BadFile {
  const char* name;
  std::string header;
  const char* message;
};
class SafetensorsHeaderTest : public ::testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsHeaderTest, IsRejected) {
  const std::string bytes = safetensors(GetParam().header, "abcdefgh");
  const IoError error = io_error_of([&] { parse_safetensors(bytes, "dir/x.safetensors"); });
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_EQ(error.path(), "dir/x.safetensors");
  EXPECT_GE(error.offset(), 8);
  EXPECT_LE(error.offset(), static_cast<std::int64_t>(bytes.size()));
}

std::string one(const char* dtype, const char* shape, const char* offsets) {
  return "{" + entry("q", dtype, shape, offsets) + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Bad, SafetensorsHeaderTest,
    ::testing::Values(
        BadFile{"Empty", "", "must begin with {"}, BadFile{"Space", " {}", "must begin with {"},
        BadFile{"Array", "[]", "must begin with {"},
        BadFile{"Mark", "\xef\xbb\xbf{}", "begin with {"},
        BadFile{"NotJson", "{q}", "not valid JSON"}, BadFile{"Open", "{" + kQ, "not valid JSON"},
        BadFile{"Trailing", "{" + kQ + "} {}", "not valid JSON"},
        BadFile{"TrailingComma", "{" + kQ + ",}", "not valid JSON"},
        BadFile{"Comment", "{/**/}", "not valid JSON"},
        BadFile{"NotUtf8", "{\"\xff\":{}}", "not valid JSON"},
        BadFile{"HalfASurrogate", "{\"\\ud800\":{}}", "not valid JSON"},
        BadFile{"ControlCharacter", "{\"a\nb\":{}}", "not valid JSON"},
        BadFile{"EntryIsNull", "{\"q\":null}", "null is out of place"},
        BadFile{"EntryIsANumber", "{\"q\":1}", "a number is out of place"},
        BadFile{"EntryIsAString", "{\"q\":\"x\"}", "a string is out of place"},
        BadFile{"EntryIsTrue", "{\"q\":true}", "a boolean is out of place"},
        BadFile{"EntryIsAnArray", "{\"q\":[]}", "an array is out of place"},
        BadFile{"EntryIsEmpty", "{\"q\":{}}", "needs a dtype"},
        BadFile{"NoShape", "{\"q\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "needs a dtype"},
        BadFile{"UnknownKey", "{\"q\":{\"type\":\"F32\"}}", "unknown key \"type\""},
        BadFile{"RepeatedKey", "{\"q\":{\"shape\":[],\"shape\":[]}}", "\"shape\" appears twice"},
        BadFile{"RepeatedName", "{" + kQ + "," + kQ + "}", "\"q\" appears twice"},
        BadFile{"RepeatedMetadata", "{\"__metadata__\":{},\"__metadata__\":{}}", "appears twice"},
        BadFile{"MetadataIsANumber", "{\"__metadata__\":{\"a\":1}}", "a number is out of place"},
        BadFile{"MetadataIsNested", "{\"__metadata__\":{\"a\":{}}}", "an object is out of place"},
        BadFile{"MetadataIsAString", "{\"__metadata__\":\"a\"}", "a string is out of place"},
        BadFile{"DtypeIsANumber", "{\"q\":{\"dtype\":1}}", "a number is out of place"},
        BadFile{"ShapeIsAString", "{\"q\":{\"shape\":\"2\"}}", "a string is out of place"},
        BadFile{"ShapeIsNested", one("F32", "[[2]]", "[0,8]"), "an array is out of place"},
        BadFile{"ShapeHasAFraction", one("F32", "[2.0]", "[0,8]"), "must be whole"},
        BadFile{"ShapeHasAString", one("F32", "[\"2\"]", "[0,8]"), "a string is out of place"},
        BadFile{"Negative", one("F32", "[-2]", "[0,8]"), "must not be negative"},
        BadFile{"TooLarge", one("F32", "[18446744073709551615]", "[0,8]"), "too large"},
        BadFile{"FarTooLarge", one("F32", "[99999999999999999999]", "[0,8]"), "64 bits"},
        BadFile{"Overflow", one("F32", "[4294967296,4294967296]", "[0,8]"), "is too large"},
        BadFile{"OverflowToTheRightSize", one("F32", "[2,9223372036854775807,2]", "[0,8]"),
                "is too large"},
        BadFile{"OneOffset", one("F32", "[2]", "[0]"), "two data_offsets"},
        BadFile{"ThreeOffsets", one("F32", "[2]", "[0,8,8]"), "must be two numbers"},
        BadFile{"NegativeOffset", one("F32", "[2]", "[-1,8]"), "must not be negative"},
        BadFile{"Backwards", one("F32", "[2]", "[8,0]"), "run backwards"},
        BadFile{"BeyondTheFile", one("F32", "[3]", "[0,12]"), "beyond the 8 bytes"},
        BadFile{"OffsetsOverflow", one("F32", "[2]", "[18446744073709551608,18446744073709551615]"),
                "beyond the 8 bytes"},
        BadFile{"TooSmallForItsShape", one("F32", "[3]", "[0,8]"), "takes 12 bytes"},
        BadFile{"TooLargeForItsShape", one("F16", "[2]", "[0,8]"), "takes 4 bytes"},
        BadFile{"TooLargeForAnUnreadDtype", one("I8", "[2]", "[0,8]"), "takes 2 bytes"},
        BadFile{"HalfAByte", one("F4", "[15]", "[0,8]"), "whole number of bytes"},
        BadFile{"HoleBefore", one("F32", "[1]", "[4,8]"), "leave a hole"},
        BadFile{"HoleAfter", one("F32", "[1]", "[0,4]"), "4 bytes of data belong to no tensor"},
        BadFile{"NoTensorButData", "{}", "8 bytes of data belong to no tensor"},
        BadFile{"Overlap", "{" + kQ + "," + entry("k", "F32", "[1]", "[4,8]") + "}", "overlap"},
        BadFile{"Same", "{" + kQ + "," + entry("k", "F32", "[2]", "[0,8]") + "}", "overlap"},
        BadFile{"DtypeNotSupported", one("U8", "[8]", "[0,8]"), "\"U8\", which is not supported"},
        BadFile{"DtypeOfTheFuture", one("F128", "[1]", "[0,8]"), "\"F128\", which is not"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(SafetensorsTest, RejectsEveryTruncation) {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    const IoError error = io_error_of([&] { parse_safetensors(kGood.substr(0, size), "cut"); });
    EXPECT_EQ(error.path(), "cut");
    EXPECT_GE(error.offset(), 0) << error.what();
    EXPECT_LE(error.offset(), static_cast<std::int64_t>(size)) << error.what();
  }
  EXPECT_NO_THROW(parse_safetensors(kGood, "whole"));
}

TEST(SafetensorsTest, RejectsMaliciousHeaderLengths) {
  for (const std::uint64_t length : {~0ull, 1ull << 63, 1ull << 32, 3ull}) {
    const IoError error =
        io_error_of([&] { parse_safetensors(little_endian(length, 8) + "{}", "x"); });
    EXPECT_EQ(error.offset(), 0);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(length) + " bytes long"));
  }
}

TEST(SafetensorsTest, RejectsAHeaderBeyondTheLimitOfTheFormat) {
  std::string bytes = little_endian(100'000'001, 8);
  bytes.resize(8 + 100'000'001, ' ');
  EXPECT_THAT(io_error_of([&] { parse_safetensors(bytes, "x"); }).what(),
              HasSubstr("100000000 is the most"));
}

TEST(SafetensorsTest, RejectsDeepNestingAtOnce) {
  const std::string deep(1'000'000, '[');
  for (const std::string start : {"{\"q\":", "{\"q\":{\"shape\":", "{\"__metadata__\":"}) {
    const IoError error =
        io_error_of([&] { parse_safetensors(safetensors(start + deep, ""), "x"); });
    EXPECT_THAT(error.what(), HasSubstr("an array is out of place"));
    EXPECT_LT(error.offset(), 50);
  }
}

TEST(SafetensorsTest, RejectsMoreThan64Dimensions) {
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  const std::string bytes =
      safetensors("{" + entry("q", "F32", "[" + ones + "]", "[0,4]") + "}", "abcd");
  EXPECT_THAT(io_error_of([&] { parse_safetensors(bytes, "x"); }).what(),
              HasSubstr("more than 64"));
}

TEST(SafetensorsTest, ErrorsStayShortAndPrintable) {
  const std::string bytes =
      safetensors("{\"" + std::string(100'000, 'n') + "\\u0007\":{\"dtype\":null}}", "");
  const std::string text = io_error_of([&] { parse_safetensors(bytes, "x"); }).what();
  EXPECT_LT(text.size(), 200u);
}

class ReadSafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, safetensors("{" + entry("mask", "BOOL", "[4]", "[0,4]") + "," +
                                      entry("q", "F32", "[1]", "[4,8]") + "," +
                                      entry("new", "X9", "[7]", "[8,11]") + "}",
                                  "1234abcdXYZ"));
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.safetensors";
};

TEST_F(ReadSafetensorsTest, SelectsByNameAmongUnsupportedDtypes) {
  const Tensor q = read_tensor(path_, "q");
  EXPECT_EQ(q.name, "q");
  EXPECT_EQ(bytes_of(q.bytes), "abcd");
}

TEST_F(ReadSafetensorsTest, RejectsUnsupportedDtype) {
  EXPECT_THAT(io_error_of([&] { read_tensor(path_, "mask"); }).what(),
              HasSubstr("tensor \"mask\" has dtype \"BOOL\", which is not supported"));
  EXPECT_THAT(io_error_of([&] { read_tensor(path_, "new"); }).what(), HasSubstr("\"X9\""));
  EXPECT_THAT(io_error_of([&] { read_safetensors(path_); }).what(), HasSubstr("\"BOOL\""));
}

TEST_F(ReadSafetensorsTest, ErrorsListTheNames) {
  EXPECT_THAT(io_error_of([&] { read_tensor(path_, "k"); }).what(),
              HasSubstr("no tensor \"k\" in the file; it holds \"mask\", \"q\", \"new\""));
  EXPECT_THAT(io_error_of([&] { read_tensor(path_); }).what(),
              HasSubstr("holds 3 tensors; name one of \"mask\""));
}

TEST_F(ReadSafetensorsTest, TheOnlyTensorNeedsNoName) {
  write_file(path_, kGood);
  EXPECT_EQ(read_tensor(path_).name, "q");
  EXPECT_EQ(read_safetensors(path_).size(), 1u);
  write_file(path_, safetensors("{}", ""));
  EXPECT_THAT(io_error_of([&] { read_tensor(path_); }).what(), HasSubstr("holds no tensor"));
}

}  // namespace
}  // namespace rotary::safetensors_test
