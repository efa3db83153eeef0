// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <limits>

#include "io/io_testing.h"
#include "rotary/error.h"
#include "rotary/model.h"

namespace rotary::internal::gguf_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

/// Builds valid and invalid GGUF files of any version and byte order.
class Builder {
 public:
  explicit Builder(std::uint32_t version = 3, bool big_endian = false)
      : version_(version), big_endian_(big_endian) {}

  std::string integer(std::uint64_t value, std::size_t size) const {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t shift = 8 * (big_endian_ ? size - 1 - i : i);
      bytes += static_cast<char>(value >> shift & 0xff);
    }
    return bytes;
  }
  std::string length(std::uint64_t value) const { return integer(value, version_ == 1 ? 4 : 8); }
  std::string text(std::string_view value) const {
    return length(value.size()) + std::string(value);
  }
  std::string type(GgufType value) const { return integer(static_cast<std::uint32_t>(value), 4); }
  std::string array(GgufType element, std::uint64_t count, const std::string& elements) const {
    return type(element) + length(count) + elements;
  }
  std::string float32(float value) const { return integer(std::bit_cast<std::uint32_t>(value), 4); }

  Builder& key(std::string_view name, GgufType kind, const std::string& value) {
    keys_ += text(name) + type(kind) + value;
    ++key_count_;
    return *this;
  }
  Builder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                  std::uint32_t element, std::uint64_t offset) {
    tensors_ += text(name) + integer(dims.size(), 4);
    for (const std::uint64_t dim : dims) tensors_ += length(dim);
    tensors_ += integer(element, 4) + integer(offset, 8);
    ++tensor_count_;
    return *this;
  }

  std::string header() const {
    return "GGUF" + integer(version_, 4) + length(tensor_count_) + length(key_count_) + keys_ +
           tensors_;
  }
  std::string file(const std::string& data = "", std::size_t alignment = 32) const {
    std::string bytes = header();
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + data;
  }

 private:
  std::uint32_t version_;
  bool big_endian_;
  std::string keys_;
  std::string tensors_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

template <typename Call>
IoError io_error_of(Call&& call) {
  try {
    call();
  } catch (const IoError& error) {
    return error;
  }
  ADD_FAILURE() << "no IoError";
  return IoError("", IoError::kNoOffset, "");
}

IoError refusal(const std::string& bytes) {
  return io_error_of([&] { GgufFile(bytes, "dir/x.gguf"); });
}

/// One value of every type.
Builder every_type(std::uint32_t version, bool big_endian) {
  Builder b(version, big_endian);
  b.key("u8", GgufType::kUint8, b.integer(0xfe, 1));
  b.key("i8", GgufType::kInt8, b.integer(0xfe, 1));
  b.key("u16", GgufType::kUint16, b.integer(0xfffe, 2));
  b.key("i16", GgufType::kInt16, b.integer(0xfffe, 2));
  b.key("u32", GgufType::kUint32, b.integer(0xfffffffe, 4));
  b.key("i32", GgufType::kInt32, b.integer(0xfffffffe, 4));
  b.key("f32", GgufType::kFloat32, b.float32(-1.5f));
  b.key("yes", GgufType::kBool, b.integer(1, 1));
  b.key("no", GgufType::kBool, b.integer(0, 1));
  b.key("text", GgufType::kString, b.text("halves"));
  b.key("u64", GgufType::kUint64, b.integer(1ull << 40, 8));
  b.key("i64", GgufType::kInt64, b.integer(~0ull, 8));
  b.key("f64", GgufType::kFloat64, b.integer(std::bit_cast<std::uint64_t>(0.1), 8));
  b.key("bytes", GgufType::kArray, b.array(GgufType::kInt8, 2, b.integer(0xff, 1) + "\x02"));
  b.key("flags", GgufType::kArray, b.array(GgufType::kBool, 2, b.integer(1, 1) + b.integer(0, 1)));
  b.key("floats", GgufType::kArray, b.array(GgufType::kFloat32, 2, b.float32(1) + b.float32(2)));
  b.key("words", GgufType::kArray,
        b.array(GgufType::kString, 3, b.text("a") + b.text("") + b.text("cc")));
  b.key("nested", GgufType::kArray,
        b.array(GgufType::kArray, 2,
                b.array(GgufType::kString, 1, b.text("x")) + b.array(GgufType::kUint16, 0, "")));
  b.key("none", GgufType::kArray, b.array(GgufType::kFloat64, 0, ""));
  return b;
}

class GgufVersionTest : public ::testing::TestWithParam<std::tuple<std::uint32_t, bool>> {};

TEST_P(GgufVersionTest, ReadsEveryType) {
  const auto [version, big_endian] = GetParam();
  const std::string bytes = every_type(version, big_endian).file();
  const GgufFile file(bytes, "x.gguf");
  EXPECT_EQ(file.version(), version);
  EXPECT_EQ(file.source(), "x.gguf");
  EXPECT_EQ(file.data_offset(), bytes.size());
  EXPECT_THAT(file.integer("u8"), Optional(254));
  EXPECT_THAT(file.integer("i8"), Optional(-2));
  EXPECT_THAT(file.integer("u16"), Optional(65534));
  EXPECT_THAT(file.integer("i16"), Optional(-2));
  EXPECT_THAT(file.integer("u32"), Optional(4294967294));
  EXPECT_THAT(file.integer("i32"), Optional(-2));
  EXPECT_THAT(file.integer("u64"), Optional(std::int64_t{1} << 40));
  EXPECT_THAT(file.integer("i64"), Optional(-1));
  EXPECT_THAT(file.number("i8"), Optional(-2.0));
  EXPECT_THAT(file.number("u64"), Optional(0x1p40));
  EXPECT_THAT(file.number("f32"), Optional(-1.5));
  EXPECT_THAT(file.number("f64"), Optional(0.1));
  EXPECT_THAT(file.boolean("yes"), Optional(true));
  EXPECT_THAT(file.boolean("no"), Optional(false));
  EXPECT_THAT(file.string("text"), Optional(std::string_view("halves")));
  EXPECT_THAT(file.numbers("bytes"), Optional(ElementsAre(-1, 2)));
  EXPECT_THAT(file.numbers("flags"), Optional(ElementsAre(1, 0)));
  EXPECT_THAT(file.numbers("floats"), Optional(ElementsAre(1, 2)));
  EXPECT_THAT(file.numbers("none"), Optional(ElementsAre()));
  EXPECT_THAT(file.numbers("f32"), Optional(ElementsAre(-1.5)));
  EXPECT_EQ(file.find("words")->count, 3u);
  EXPECT_EQ(file.find("words")->element_type, GgufType::kString);
  EXPECT_EQ(file.find("nested")->element_type, GgufType::kArray);
  EXPECT_EQ(file.keys().size(), 19u);
  EXPECT_EQ(file.keys().front(), "bytes");
}

TEST_P(GgufVersionTest, ReadsTensors) {
  const auto [version, big_endian] = GetParam();
  Builder b(version, big_endian);
  b.tensor("f32", {3}, GgufTensor::kFloat32, 0);
  b.tensor("f16", {2, 2}, GgufTensor::kFloat16, 32);
  b.tensor("bf16", {1}, GgufTensor::kBFloat16, 64);
  b.tensor("f64", {1, 1, 1, 1}, GgufTensor::kFloat64, 96);
  b.tensor("scalar", {}, GgufTensor::kFloat32, 0);
  b.tensor("none", {0, 7}, GgufTensor::kFloat32, 1ull << 60);
  std::string data = b.float32(1) + b.float32(-0.25f) + b.float32(1e30f);
  data.resize(32);
  for (const std::uint64_t half : {0x3c00u, 0xc000u, 0x0001u, 0x7bffu}) data += b.integer(half, 2);
  data.resize(64);
  data += b.integer(0x4049, 2);
  data.resize(96);
  data += b.integer(std::bit_cast<std::uint64_t>(0.1), 8);
  const std::string bytes = b.file(data);
  const GgufFile file(bytes, "x.gguf");
  EXPECT_THAT(file.tensor("f32"), Optional(ElementsAre(1, -0.25, double{1e30f})));
  EXPECT_THAT(file.tensor("f16"), Optional(ElementsAre(1, -2, 0x1p-24, 65504)));
  EXPECT_THAT(file.tensor("bf16"), Optional(ElementsAre(3.140625)));
  EXPECT_THAT(file.tensor("f64"), Optional(ElementsAre(0.1)));
  EXPECT_THAT(file.tensor("scalar"), Optional(ElementsAre(1)));
  EXPECT_THAT(file.tensor("none"), Optional(ElementsAre()));
  EXPECT_EQ(file.tensor("absent"), std::nullopt);
  EXPECT_EQ(file.find_tensor("f16")->rank, 2);
}

TEST_P(GgufVersionTest, RejectsEveryTruncationOfTheHeader) {
  const auto [version, big_endian] = GetParam();
  Builder b = every_type(version, big_endian);
  b.tensor("rope_freqs.weight", {4}, GgufTensor::kFloat32, 0);
  const std::string bytes = b.header();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const IoError error = refusal(bytes.substr(0, size));
    EXPECT_EQ(error.path(), "dir/x.gguf");
    EXPECT_GE(error.offset(), 0) << error.what();
    EXPECT_LE(error.offset(), static_cast<std::int64_t>(size)) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, GgufVersionTest,
                         ::testing::Combine(::testing::Values(1u, 2u, 3u), ::testing::Bool()),
                         [](const auto& test) {
                           return "V" + std::to_string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) ? "BigEndian" : "");
                         });

TEST(GgufFileTest, AbsentKeys) {
  const std::string bytes = Builder().file();
  const GgufFile file(bytes, "x.gguf");
  EXPECT_EQ(file.find("x"), nullptr);
  EXPECT_EQ(file.find_tensor("x"), nullptr);
  EXPECT_EQ(file.number("x"), std::nullopt);
  EXPECT_EQ(file.integer("x"), std::nullopt);
  EXPECT_EQ(file.boolean("x"), std::nullopt);
  EXPECT_EQ(file.string("x"), std::nullopt);
  EXPECT_EQ(file.numbers("x"), std::nullopt);
  EXPECT_TRUE(file.keys().empty());
}

TEST(GgufFileTest, ValuesOfAnotherTypeAreRejectedByName) {
  const std::string bytes = every_type(3, false).file();
  const GgufFile file(bytes, "x.gguf");
  const auto text = [](auto&& call) { return std::string(io_error_of(call).what()); };
  EXPECT_THAT(text([&] { file.number("text"); }),
              HasSubstr("x.gguf: the key \"text\" must be a number, got string (at byte "));
  EXPECT_THAT(text([&] { file.number("yes"); }), HasSubstr("got boolean"));
  EXPECT_THAT(text([&] { file.integer("f32"); }), HasSubstr("must be an integer, got float32"));
  EXPECT_THAT(text([&] { file.boolean("u8"); }), HasSubstr("must be a boolean, got uint8"));
  EXPECT_THAT(text([&] { file.string("words"); }), HasSubstr("a string, got array of string"));
  EXPECT_THAT(text([&] { file.numbers("words"); }), HasSubstr("got array of string"));
  EXPECT_THAT(text([&] { file.numbers("nested"); }), HasSubstr("got array of array"));
  EXPECT_THAT(text([&] { file.numbers("text"); }), HasSubstr("an array of numbers, got string"));
}

TEST(GgufFileTest, RejectsIntegersThatDoNotFit) {
  Builder b;
  b.key("u64", GgufType::kUint64, b.integer(~0ull, 8));
  const std::string bytes = b.file();
  const GgufFile file(bytes, "x.gguf");
  EXPECT_THAT(io_error_of([&] { file.integer("u64"); }).what(), HasSubstr("18446744073709551615"));
  EXPECT_THAT(file.number("u64"), Optional(0x1p64));
}

TEST(GgufFileTest, RejectsOtherFilesAndVersions) {
  EXPECT_THAT(refusal("PK\x03\x04").what(), HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal("{\"model_type\":1}").what(), HasSubstr("is not a GGUF file"));
  for (const std::uint32_t version : {0u, 4u, 0x10000u, 0xffffffffu}) {
    const IoError error = refusal(Builder(version).file());
    EXPECT_THAT(error.what(), HasSubstr("versions 1 to 3 of GGUF"));
    EXPECT_EQ(error.offset(), 4);
  }
}

TEST(GgufFileTest, RejectsMaliciousCounts) {
  const Builder b;
  const std::string start = "GGUF" + b.integer(3, 4);
  const std::string huge = b.integer(~0ull, 8);
  EXPECT_THAT(refusal(start + huge + b.integer(0, 8)).what(), HasSubstr("number of tensors"));
  EXPECT_THAT(refusal(start + b.integer(0, 8) + huge).what(), HasSubstr("number of keys"));
  EXPECT_THAT(
      refusal(start + b.integer(0, 8) + b.integer(1, 8) + huge + std::string(99, 'x')).what(),
      HasSubstr("a key"));
  for (const GgufType type :
       {GgufType::kUint8, GgufType::kFloat64, GgufType::kString, GgufType::kArray}) {
    for (const std::uint64_t count : {~0ull, 1ull << 61, 1ull << 32, 1000ull}) {
      Builder bad;
      bad.key("a", GgufType::kArray, bad.array(type, count, std::string(100, '\0')));
      EXPECT_THAT(refusal(bad.header()).what(), HasSubstr("the length of an array"));
    }
  }
  Builder bad;
  bad.key("s", GgufType::kString, huge + "x");
  EXPECT_THAT(refusal(bad.header()).what(), HasSubstr("a string"));
}

TEST(GgufFileTest, RejectsUnknownTypes) {
  Builder b;
  b.key("a", static_cast<GgufType>(13), "x");
  EXPECT_THAT(refusal(b.file()).what(), HasSubstr("unknown type of value 13"));
  Builder array;
  array.key("a", GgufType::kArray, array.array(static_cast<GgufType>(99), 0, ""));
  EXPECT_THAT(refusal(array.file()).what(), HasSubstr("unknown type of value 99"));
}

TEST(GgufFileTest, RejectsDeepNesting) {
  const auto nested = [](int depth) {
    Builder b;
    std::string value = b.array(GgufType::kUint8, 0, "");
    for (int i = 1; i < depth; ++i) value = b.array(GgufType::kArray, 1, value);
    b.key("a", GgufType::kArray, value);
    return b.file();
  };
  EXPECT_NO_THROW(GgufFile(nested(8), "x"));
  EXPECT_THAT(refusal(nested(9)).what(), HasSubstr("nested deeper than 8"));
  EXPECT_THAT(refusal(nested(1000)).what(), HasSubstr("nested deeper than 8"));
}

TEST(GgufFileTest, RejectsRepeatedNames) {
  Builder keys;
  keys.key("a\n", GgufType::kUint8, "x").key("a\n", GgufType::kUint8, "y");
  EXPECT_THAT(refusal(keys.file()).what(), HasSubstr("the key \"a\\x0a\" appears twice"));
  Builder tensors;
  tensors.tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32);
  EXPECT_THAT(refusal(tensors.file()).what(), HasSubstr("the tensor \"t\" appears twice"));
}

TEST(GgufFileTest, Alignment) {
  Builder b;
  b.key("general.alignment", GgufType::kUint32, b.integer(64, 4));
  b.tensor("t", {1}, GgufTensor::kFloat32, 64);
  const std::string bytes = b.file(std::string(64, '\0') + b.float32(7), 64);
  const GgufFile file(bytes, "x");
  EXPECT_EQ(file.data_offset() % 64, 0u);
  EXPECT_THAT(file.tensor("t"), Optional(ElementsAre(7)));

  Builder off;
  off.tensor("t", {1}, GgufTensor::kFloat32, 4);
  EXPECT_THAT(refusal(off.file()).what(), HasSubstr("not a multiple of 32"));
  for (const std::uint64_t value : {0u, 3u, 48u, 0xffffffffu, 0x80000000u}) {
    Builder bad;
    bad.key("general.alignment", GgufType::kUint32, bad.integer(value, 4));
    EXPECT_THAT(refusal(bad.file()).what(),
                HasSubstr("power of two, got " + std::to_string(value)));
  }
  Builder wrong;
  wrong.key("general.alignment", GgufType::kString, wrong.text("64"));
  EXPECT_THAT(refusal(wrong.file()).what(), HasSubstr("must be an integer"));
}

TEST(GgufFileTest, RejectsTensorsOfOtherTypesOnAccessOnly) {
  constexpr std::uint32_t kQ4 = 2;
  Builder b;
  b.tensor("q4", {256}, kQ4, 0).tensor("future", {1}, 4000, 1ull << 62);
  const std::string bytes = b.file();
  const GgufFile file(bytes, "x");
  EXPECT_THAT(io_error_of([&] { file.tensor("q4"); }).what(), HasSubstr("GGML type 2"));
  EXPECT_THAT(io_error_of([&] { file.tensor("future"); }).what(), HasSubstr("GGML type 4000"));
}

TEST(GgufFileTest, RejectsMissingDataOnAccessOnly) {
  Builder b;
  b.tensor("t", {4}, GgufTensor::kFloat32, 0);
  std::string bytes = b.header();  // without padding
  EXPECT_THROW(GgufFile(bytes, "x").tensor("t"), IoError);
  bytes = b.file(std::string(16, '\0'));
  EXPECT_THAT(GgufFile(bytes, "x").tensor("t"), Optional(ElementsAre(0, 0, 0, 0)));
  for (int i = 0; i < 16; ++i) {
    bytes.pop_back();
    const GgufFile file(bytes, "x");
    const IoError error = io_error_of([&] { file.tensor("t"); });
    EXPECT_THAT(error.what(), HasSubstr("tensor \"t\" reaches beyond the end of the file"));
    EXPECT_EQ(error.offset(), static_cast<std::int64_t>(bytes.size()));
  }
}

TEST(GgufFileTest, RejectsMaliciousShapes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::vector<std::uint64_t>& dims :
       std::vector<std::vector<std::uint64_t>>{{kMost},
                                               {1ull << 32, 1ull << 32},
                                               {1ull << 62, 4, 1},
                                               {kMost, kMost, kMost, kMost},
                                               {5}}) {
    Builder b;
    b.tensor("t", dims, GgufTensor::kFloat32, 0);
    const std::string bytes = b.file(std::string(16, '\0'));
    const GgufFile file(bytes, "x");
    EXPECT_THAT(io_error_of([&] { file.tensor("t"); }).what(), HasSubstr("beyond the end"));
  }
  Builder far;
  far.tensor("t", {1}, GgufTensor::kFloat32, kMost - 31);
  const std::string bytes = far.file(std::string(64, '\0'));
  const GgufFile file(bytes, "x");
  EXPECT_THAT(io_error_of([&] { file.tensor("t"); }).what(), HasSubstr("beyond the end"));
  Builder five;
  five.tensor("t", {1, 1, 1, 1, 1}, GgufTensor::kFloat32, 0);
  EXPECT_THAT(refusal(five.file()).what(), HasSubstr("5 dimensions, 4 is the most"));
}

TEST(GgufFileTest, SkipsAVocabulary) {
  Builder b;
  std::string words;
  for (int i = 0; i < 200'000; ++i) words += b.text("token");
  b.key("tokenizer.ggml.tokens", GgufType::kArray, b.array(GgufType::kString, 200'000, words));
  b.key("llama.rope.freq_base", GgufType::kFloat32, b.float32(5e5f));
  const std::string bytes = b.file();
  const GgufFile file(bytes, "x");
  EXPECT_EQ(file.find("tokenizer.ggml.tokens")->count, 200'000u);
  EXPECT_THAT(file.number("llama.rope.freq_base"), Optional(5e5));
}

/// A Llama whose rope_freqs lie at `offset` of the data section.
Builder llama(std::uint64_t offset) {
  const Builder b;
  return Builder()
      .key("general.architecture", GgufType::kString, b.text("llama"))
      .key("llama.embedding_length", GgufType::kUint64, b.integer(64, 8))
      .key("llama.attention.head_count", GgufType::kUint32, b.integer(8, 4))
      .tensor("rope_freqs.weight", {4}, GgufTensor::kFloat32, offset);
}

TEST(ReadGguf, ReadsTensorsFarBehindTheHeader) {
  constexpr std::uint64_t kOffset = std::uint64_t{64} << 20;
  const TemporaryFolder folder;
  const Builder b = llama(kOffset);
  std::string factors;
  for (const float factor : {1.0F, 2.0F, 4.0F, 8.0F}) factors += b.float32(factor);
  write_file(folder / "model.gguf", b.file());
  // A sparse file: what lies between takes no space.
  std::filesystem::resize_file(folder / "model.gguf", b.file().size() + kOffset);
  std::ofstream(folder / "model.gguf", std::ios::binary | std::ios::app) << factors;
  const Model model = Model::read(folder / "model.gguf");
  EXPECT_THAT(std::get<Divisors>(model.ropes.at(0).recipe.scaling).divisor,
              ElementsAre(1.0, 2.0, 4.0, 8.0));
}

TEST(ReadGguf, ReadsLongHeaders) {
  const TemporaryFolder folder;
  Builder b = llama(0);
  const std::string word = b.text(std::string(100, 'x'));
  std::string words;
  for (int i = 0; i < 200'000; ++i) words += word;
  b.key("tokenizer.ggml.tokens", GgufType::kArray, b.array(GgufType::kString, 200'000, words));
  std::string factors;
  for (int i = 0; i < 4; ++i) factors += b.float32(2.0F);
  write_file(folder / "model.gguf", b.file(factors));
  const Model model = Model::read(folder / "model.gguf");
  EXPECT_EQ(model.ropes.at(0).layout.head_dim, 8);
}

TEST(ReadGguf, RejectsHugeWidths) {
  const Builder b;
  for (const std::uint64_t width : {std::uint64_t{0}, (std::uint64_t{1} << 63) - 1}) {
    const std::string file =
        Builder()
            .key("general.architecture", GgufType::kString, b.text("llama"))
            .key("llama.embedding_length", GgufType::kUint64, b.integer(width, 8))
            .key("llama.attention.head_count", GgufType::kUint32, b.integer(1, 4))
            .file();
    EXPECT_THAT([&] { static_cast<void>(Model::from_gguf(file)); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("embedding_length must be 1 to")));
  }
}

}  // namespace
}  // namespace rotary::internal::gguf_file_test
