// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <numeric>

#include "io/io_testing.h"
#include "rotary/io.h"

namespace rotary::npy_test {
namespace {

using ::testing::HasSubstr;

/// A .npy file of the given header text.
std::string npy(const std::string& header, const std::string& data, char major = 1) {
  return std::string("\x93NUMPY") + major + '\0' +
         little_endian(header.size(), major == 1 ? 2 : 4) + header + data;
}

std::string header_of(const std::string& descr, const std::string& order,
                      const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

const std::vector<float> kSix{0.5f, -1.0f, 2.0f, 3.0f, -4.5f, 5.0f};
const std::string kGood = npy(header_of("'<f4'", "False", "(2, 3)"), bytes_of(kSix));

TEST(NpyTest, ReadsEveryVersion) {
  for (const char major : {'\1', '\2', '\3'}) {
    const Tensor tensor =
        parse_npy(npy(header_of("'<f4'", "False", "(2, 3)"), bytes_of(kSix), major), "x.npy");
    EXPECT_EQ(tensor.dtype, DType::kFloat32);
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(values_of<float>(tensor.bytes), kSix);
    EXPECT_EQ(tensor.name, "");
  }
}

TEST(NpyTest, ReadsEveryDtypeInBothByteOrders) {
  struct Case {
    const char* type;
    DType dtype;
    std::size_t size;
  };
  for (const auto& [type, dtype, size] :
       {Case{"f2", DType::kFloat16, 2}, Case{"f4", DType::kFloat32, 4},
        Case{"f8", DType::kFloat64, 8}, Case{"i4", DType::kInt32, 4},
        Case{"i8", DType::kInt64, 8}}) {
    std::string data(3 * size, '\0');
    std::iota(data.begin(), data.end(), '\1');
    for (const std::string order : {"<", "=", "|", "", ">"}) {
      const Tensor tensor =
          parse_npy(npy(header_of("'" + order + type + "'", "False", "(3,)"), data), "x.npy");
      EXPECT_EQ(tensor.dtype, dtype);
      std::string expected = data;
      for (std::size_t i = 0; order == ">" && i < 3; ++i) {
        const auto first = expected.begin() + static_cast<std::ptrdiff_t>(i * size);
        std::reverse(first, first + static_cast<std::ptrdiff_t>(size));
      }
      EXPECT_EQ(bytes_of(tensor.bytes), expected) << order << type;
    }
  }
}

TEST(NpyTest, ConvertsColumnMajorToRowMajor) {
  // Element (i, j, k) of a 2 x 3 x 4 array, stored with i fastest.
  std::vector<std::int32_t> stored(24);
  std::vector<std::int32_t> expected(24);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 4; ++k) {
        stored[i + 2 * j + 6 * k] = expected[12 * i + 4 * j + k] =
            static_cast<std::int32_t>(100 * i + 10 * j + k);
      }
    }
  }
  const Tensor tensor =
      parse_npy(npy(header_of("'<i4'", "True", "(2, 3, 4)"), bytes_of(stored)), "x.npy");
  EXPECT_EQ(values_of<std::int32_t>(tensor.bytes), expected);
}

TEST(NpyTest, ColumnMajorOfEverySizeAndRank) {
  const std::vector<double> eight{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(values_of<double>(
                parse_npy(npy(header_of("'<f8'", "True", "(4, 2)"), bytes_of(eight)), "").bytes),
            (std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7}));
  const std::vector<std::uint16_t> four{1, 2, 3, 4};
  EXPECT_EQ(values_of<std::uint16_t>(
                parse_npy(npy(header_of("'<f2'", "True", "(2, 2)"), bytes_of(four)), "").bytes),
            (std::vector<std::uint16_t>{1, 3, 2, 4}));
  EXPECT_EQ(values_of<std::uint16_t>(
                parse_npy(npy(header_of("'<f2'", "True", "(4,)"), bytes_of(four)), "").bytes),
            four);
  EXPECT_TRUE(parse_npy(npy(header_of("'<f2'", "True", "(0, 4)"), ""), "").bytes.empty());
}

TEST(NpyTest, ReadsScalarsAndEmptyArrays) {
  const Tensor scalar = parse_npy(npy(header_of("'<f8'", "False", "()"), std::string(8, 'x')), "");
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.num_elements(), 1);
  const Tensor empty = parse_npy(npy(header_of("'<f8'", "False", "(0, 5)"), ""), "");
  EXPECT_EQ(empty.shape, (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(empty.num_elements(), 0);
}

TEST(NpyTest, ReadsHeadersInEveryCommonFormat) {
  for (const std::string header : {
           "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
           "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}   \n",
           "{ 'descr' : '<f4' ,\n 'fortran_order' : False ,\t'shape' : ( 2 , 3 , ) , }",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
       }) {
    EXPECT_EQ(parse_npy(npy(header, bytes_of(kSix)), "x.npy").shape,
              (std::vector<std::int64_t>{2, 3}))
        << header;
  }
}

struct BadHeader {
  const char* name;
  std::string header;
  const char* message;
};
class NpyHeaderTest : public ::testing::TestWithParam<BadHeader> {};

TEST_P(NpyHeaderTest, IsRejected) {
  const IoError error =
      io_error_of([] { parse_npy(npy(GetParam().header, bytes_of(kSix)), "dir/x.npy"); });
  EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  EXPECT_EQ(error.path(), "dir/x.npy");
  EXPECT_GE(error.offset(), 10);
}

std::string shaped(const std::string& shape) { return header_of("'<f4'", "False", shape); }
std::string typed(const std::string& descr) { return header_of(descr, "False", "(2, 3)"); }

INSTANTIATE_TEST_SUITE_P(
    Bad, NpyHeaderTest,
    ::testing::Values(
        BadHeader{"Empty", "", "expected a dict"}, BadHeader{"NoDict", "[1, 2]", "expected a dict"},
        BadHeader{"OpenDict", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "'}'"},
        BadHeader{"NothingInside", "{}", "needs the keys"},
        BadHeader{"MissingOrder", "{'descr': '<f4', 'shape': (2, 3)}", "needs the keys"},
        BadHeader{"UnknownKey", "{'descr': '<f4', 'colour': False}", "key \"colour\""},
        BadHeader{"RepeatedKey", "{'descr': '<f4', 'descr': '<f4'}", "repeated key"},
        BadHeader{"Trailing", shaped("(2, 3)") + "x", "text after"},
        BadHeader{"NoColon", "{'descr' '<f4'}", "':'"},
        BadHeader{"NoComma", "{'descr': '<f4' 'shape': (1,)}", "','"},
        BadHeader{"OpenString", "{'descr: <f4}", "no end"},
        BadHeader{"Escape", typed("'<f\\x34'"), "escape"},
        BadHeader{"KeyIsNoString", "{descr: '<f4'}", "expected a string"},
        BadHeader{"Negative", shaped("(2, -3)"), "negative"},
        BadHeader{"ExtentOfTwentyDigits", shaped("(99999999999999999999,)"), "64 bits"},
        BadHeader{"ProductOverflows", shaped("(4294967296, 4294967296)"), "too large"},
        BadHeader{"BytesOverflow", shaped("(4611686018427387904,)"), "too large"},
        BadHeader{"OverflowBehindZero", shaped("(0, 4294967296, 4294967296)"), "too large"},
        BadHeader{"HugeButCountable", shaped("(1000000000000,)"), "takes 4000000000000 bytes"},
        BadHeader{"ShapeIsAList", shaped("[2, 3]"), "tuple"},
        BadHeader{"ShapeIsANumber", shaped("6"), "tuple"},
        BadHeader{"TupleOfOneWithoutComma", shaped("(6)"), "comma"},
        BadHeader{"ShapeWithText", shaped("(2, 'x')"), "expected an extent"},
        BadHeader{"ShapeWithFraction", shaped("(2.0, 3)"), "in the shape"},
        BadHeader{"ShapeWithDoubleComma", shaped("(2,, 3)"), "expected an extent"},
        BadHeader{"OctalExtent", shaped("(02, 3)"), "leading zeros"},
        BadHeader{"OpenTuple", "{'shape': (2, 3", "in the shape"},
        BadHeader{"OrderIsANumber", header_of("'<f4'", "0", "(2, 3)"), "True or False"},
        BadHeader{"Structured", typed("[('a', '<f4')]"), "structured"},
        BadHeader{"Object", typed("'|O'"), "object arrays"},
        BadHeader{"Complex", typed("'<c8'"), "\"<c8\" is not supported"},
        BadHeader{"Int16", typed("'<i2'"), "\"<i2\" is not supported"},
        BadHeader{"Uint8", typed("'|u1'"), "\"|u1\" is not supported"},
        BadHeader{"Void", typed("'|V2'"), "\"|V2\" is not supported"},
        BadHeader{"Unprintable", typed("'\x01\xff'"), "\"\\x01\\xff\" is not supported"},
        BadHeader{"EmptyDescr", typed("''"), "\"\" is not supported"},
        BadHeader{"DescrIsNone", typed("None"), "expected a string"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(NpyTest, RejectsMoreThan64Dimensions) {
  std::string ones;
  for (int i = 0; i < 64; ++i) ones += "1, ";
  EXPECT_EQ(parse_npy(npy(shaped("(" + ones + ")"), "abcd"), "").shape.size(), 64u);
  EXPECT_THAT(io_error_of([&] { parse_npy(npy(shaped("(" + ones + "1)"), "abcd"), ""); }).what(),
              HasSubstr("more than 64"));
}

TEST(NpyTest, RejectsEveryTruncation) {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    const IoError error = io_error_of([&] { parse_npy(kGood.substr(0, size), "cut.npy"); });
    EXPECT_EQ(error.path(), "cut.npy");
    EXPECT_GE(error.offset(), 0) << error.what();
    EXPECT_LE(error.offset(), static_cast<std::int64_t>(size)) << error.what();
  }
}

TEST(NpyTest, ErrorsHaveTheOffsetOfMissingAndExtraData) {
  const auto data_at = static_cast<std::int64_t>(kGood.size() - 24);
  const IoError missing =
      io_error_of([] { parse_npy(std::string_view(kGood).substr(0, kGood.size() - 1), "x.npy"); });
  EXPECT_EQ(missing.offset(), data_at + 23);
  EXPECT_THAT(missing.what(), HasSubstr("shape [2, 3] of float32 takes 24 bytes, the file has 23"));
  const IoError extra = io_error_of([] { parse_npy(kGood + "!", "x.npy"); });
  EXPECT_EQ(extra.offset(), data_at + 24);
  EXPECT_THAT(extra.what(), HasSubstr("the file has 25"));
}

TEST(NpyTest, RejectsOtherFilesAndVersions) {
  EXPECT_THAT(io_error_of([] { parse_npy("PK\x03\x04....", "x.npy"); }).what(),
              HasSubstr("is not a .npy file"));
  for (const char* version : {"\x00\x00", "\x04\x00", "\x01\x01", "\xff\x00"}) {
    std::string bytes = kGood;
    bytes.replace(6, 2, version, 2);
    const IoError error = io_error_of([&] { parse_npy(bytes, "x.npy"); });
    EXPECT_THAT(error.what(), HasSubstr("versions 1.0, 2.0 and 3.0"));
    EXPECT_EQ(error.offset(), 6);
  }
}

TEST(NpyTest, RejectsAHeaderLongerThanTheFile) {
  const std::string bytes = std::string("\x93NUMPY\x02\x00", 8) + "\xff\xff\xff\xff{}";
  const IoError error = io_error_of([&] { parse_npy(bytes, "x.npy"); });
  EXPECT_THAT(error.what(), HasSubstr("4294967295 bytes long, the file has 2 left"));
  EXPECT_EQ(error.offset(), 8);
}

}  // namespace
}  // namespace rotary::npy_test
