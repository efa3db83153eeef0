// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Files of torch.save(): those of the fuzz corpus, which PyTorch wrote, and hostile ones.
#include "io/torch_file.h"

#include <algorithm>
#include <numeric>

#include "io/io_testing.h"

namespace rotary::internal::torch_file_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::string_literals;

std::string corpus(const std::string& name) {
  const std::string bytes = read_file(ROTARY_TESTS_DIR "/fuzz/corpus/torch/" + name);
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

template <typename T>
std::vector<T> elements_of(const std::string& bytes, const TorchEntry& entry) {
  std::vector<T> values;
  std::vector<std::int64_t> at(entry.shape.size(), 0);
  const std::int64_t count =
      std::accumulate(entry.shape.begin(), entry.shape.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    std::int64_t rest = i;
    for (std::size_t d = at.size(); d-- > 0; rest /= entry.shape[d]) {
      offset += rest % entry.shape[d] * entry.strides[d];
    }
    T value;
    std::memcpy(&value, bytes.data() + entry.begin + static_cast<std::size_t>(offset) * sizeof(T),
                sizeof(T));
    values.push_back(value);
  }
  return values;
}

class TorchFormats : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& name) const { return corpus(name + GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, TorchFormats, testing::Values(".zip", ".bin"), [](const auto& one) {
  return std::string(one.param == std::string(".zip") ? "Archive" : "Legacy");
});

TEST_P(TorchFormats, ReadsTensors) {
  const std::string bytes = file("one");
  const auto entries = parse_torch_file(bytes, "x.bin");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, "q");
  EXPECT_EQ(entries[0].dtype, "F32");
  EXPECT_THAT(entries[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(elements_of<float>(bytes, entries[0]), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_P(TorchFormats, ReadsViewsOfSharedStorages) {
  const std::string bytes = file("views");
  const auto entries = parse_torch_file(bytes, "x.bin");
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_THAT(elements_of<float>(bytes, entries[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(elements_of<float>(bytes, entries[1]), ElementsAre(2, 3));
  EXPECT_THAT(entries[2].shape, ElementsAre(3, 2));
  EXPECT_THAT(elements_of<float>(bytes, entries[2]), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_P(TorchFormats, ReadsDtypesParametersAndEmptyTensors) {
  std::vector<std::string> dtypes;
  for (const auto& entry : parse_torch_file(file("dtypes"), "x.bin")) {
    dtypes.emplace_back(entry.dtype);
  }
  EXPECT_THAT(dtypes, ElementsAre("F16", "BF16", "I64", "U8", "BOOL"));
  EXPECT_THAT(elements_of<float>(file("module"), parse_torch_file(file("module"), "x.bin").at(0)),
              AllOf(SizeIs(6), Each(0.5F)));
  EXPECT_EQ(parse_torch_file(file("parameter"), "x.bin").at(0).name, "w");
  const auto entries = parse_torch_file(file("empty"), "x.bin");
  EXPECT_THAT(entries.at(0).shape, ElementsAre(0));
  EXPECT_THAT(entries.at(1).shape, IsEmpty());
  EXPECT_THAT(parse_torch_file(file("nothing"), "x.bin"), IsEmpty());
}

TEST_P(TorchFormats, RejectsEveryTruncation) {
  for (const char* name : {"views", "dtypes"}) {
    const std::string bytes = file(name);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(parse_torch_file(std::string_view(bytes).substr(0, size), "x.bin"), IoError)
          << name << " of " << size << " bytes";
    }
  }
}

TEST_P(TorchFormats, SurvivesEveryChangedByte) {
  const std::string bytes = file("views");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ change);
      try {
        for (const auto& entry : parse_torch_file(other, "x.bin")) {
          elements_of<float>(other, entry);  // under a sanitizer: within the file
        }
      } catch (const IoError&) {
      }
    }
  }
}

// ---- Hostile pickles, in the legacy format ------------------------------------------------------

std::string text(const std::string& value) { return "X" + little_endian(value.size(), 4) + value; }
std::string number(std::uint64_t value) { return "\x8a\x08" + little_endian(value, 8); }

constexpr std::string_view kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n";

/// A tensor of storage "0".
std::string tensor(const std::string& offset, const std::string& sizes, const std::string& strides,
                   const std::string& type = "FloatStorage", std::uint64_t elements = 2) {
  return std::string(kRebuild) + "((" + text("storage") + "ctorch\n" + type + "\n" + text("0") +
         text("cpu") + number(elements) + "NtQ" + offset + "(" + sizes + "t(" + strides +
         "t\x89"
         "Nt" +
         "R";
}

/// A file whose dict is made by these opcodes, with the storage "0".
std::string legacy(const std::string& dict, std::uint64_t elements = 2) {
  const std::string head = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  // Without a tensor, no storages.
  const bool stores = dict.find("storage") != std::string::npos;
  const std::string keys = stores ? "]" + text("0") + "a." : "].";
  const std::string machine = "\x80\x02}" + text("little_endian") + "\x88s.";
  const std::string data = little_endian(elements, 8) + std::string(4 * elements, 'x');
  return head + "\x80\x02M\xe9\x03." + machine + "\x80\x02" + dict + ".\x80\x02" + keys +
         (stores ? data : "");
}
std::string one(const std::string& opcodes) { return legacy("}" + text("w") + opcodes + "s"); }

std::string refusal(const std::string& bytes) {
  return io_error_of([&] { parse_torch_file(bytes, "x.bin"); }).what();
}

TEST(TorchFileTest, ReadsAPickleMadeByHand) {
  const std::string bytes = one(tensor("K\x00"s, "K\x02", "K\x01"));
  EXPECT_THAT(parse_torch_file(bytes, "x.bin"), SizeIs(1));
}

TEST(TorchFileTest, RunsNoCode) {
  EXPECT_THAT(refusal(one("cos\nsystem\n" + text("true") + "\x85R")),
              AllOf(HasSubstr("x.bin: the pickle refers to \"os.system\"; only tensors are read"),
                    HasSubstr("(at byte ")));
  EXPECT_THAT(refusal(one("c__builtin__\neval\n" + text("1") + "\x85R")), HasSubstr("eval"));
  EXPECT_THAT(refusal(one("ctorch\nload\n" + text("1") + "\x85R")), HasSubstr("torch.load"));
  // By the opcodes of other protocols: STACK_GLOBAL, INST, OBJ, NEWOBJ, EXT1.
  for (const std::string& opcodes :
       {text("os") + text("system") + "\x93", "(ios\nsystem\n"s, "(cos\nsystem\no"s,
        "ccollections\nOrderedDict\n)\x81"s, "\x82\x01"s}) {
    EXPECT_THAT(refusal(one(opcodes)),
                testing::AnyOf(HasSubstr("which torch.save() does not use"),
                               HasSubstr("the pickle refers to \"os.system\"")));
  }
  EXPECT_THAT(refusal(one(text("a") + text("b") + "\x86R")), HasSubstr("calls what is not"));
  EXPECT_THAT(refusal(one(text("a") + "}b")), HasSubstr("sets the state of what is not a dict"));
  EXPECT_THAT(refusal(one("(" + text("module") + "NNNNtQ")), HasSubstr("is not a storage"));
}

TEST(TorchFileTest, RejectsTensorsBeyondTheirStorage) {
  const auto refused = [](const std::string& offset, const std::string& sizes,
                          const std::string& strides) {
    return refusal(one(tensor(offset, sizes, strides)));
  };
  EXPECT_THAT(refused("K\x01", "K\x02", "K\x01"),
              HasSubstr("tensor \"w\": shape [2] with strides [1] from element 1 reaches beyond "
                        "the 2 elements of its storage"));
  EXPECT_THAT(refused("K\x00"s, "K\x02", "K\x02"), HasSubstr("reaches beyond"));
  EXPECT_THAT(refused("K\x00"s, "K\x02", number(std::uint64_t{1} << 62)), HasSubstr("beyond"));
  EXPECT_THAT(
      refused("K\x00"s, number(std::uint64_t{1} << 62) + number(1 << 20), number(0) + number(0)),
      HasSubstr("reaches beyond"));
  EXPECT_THAT(refused(number((std::uint64_t{1} << 63) - 1), "K\x01", "K\x01"), HasSubstr("beyond"));
  // A stride of 0 would make a large tensor of a small file.
  EXPECT_THAT(refused("K\x00"s, number(1 << 30), "K\x00"s), HasSubstr("repeats the 2 elements"));
  for (const char* negative : {"J\xff\xff\xff\xff", "\x8a\x01\xff"}) {
    EXPECT_THAT(refused("K\x00"s, "K\x02", negative), HasSubstr("none of them negative"));
    EXPECT_THAT(refused("K\x00"s, negative, "K\x01"), HasSubstr("none of them negative"));
    EXPECT_THAT(refused(negative, "K\x02", "K\x01"), HasSubstr("none of them negative"));
  }
  EXPECT_THAT(refused("K\x00"s, "K\x01K\x02", "K\x01"), HasSubstr("as many sizes as strides"));
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "K\x01";
  EXPECT_THAT(refused("K\x00"s, ones, ones), HasSubstr("(at most 64)"));
  EXPECT_THAT(refusal(one(tensor("K\x00"s, "K\x02", "K\x01", "DoubleStorage"))),
              HasSubstr("which the file is too short for"));
}

/// The dict of a tensor under that many names.
std::string repeated(const std::string& opcodes, int count) {
  std::string dict = "}" + text("w") + opcodes + "q\x01s";
  for (int i = 1; i < count; ++i) dict += text(std::to_string(i)) + "h\x01s";
  return dict;
}

TEST(TorchFileTest, LimitsEntriesAndSharing) {
  const std::string small = tensor("K\x00"s, "K\x02", "K\x01");
  EXPECT_THAT(parse_torch_file(legacy(repeated(small, 65'536)), "x.bin"), SizeIs(65'536));
  EXPECT_THAT(refusal(legacy(repeated(small, 65'537))),
              HasSubstr("65537 entries; at most 65536 are allowed"));
  const std::string large = tensor("K\x00"s, number(10'000), "K\x01", "FloatStorage", 10'000);
  EXPECT_THAT(parse_torch_file(legacy(repeated(large, 16), 10'000), "x.bin"), SizeIs(16));
  EXPECT_THAT(refusal(legacy(repeated(large, 20), 10'000)),
              HasSubstr("have 16 times those of the file"));
}

TEST(TorchFileTest, LimitsTheMachine) {
  const std::string deep(1'100'000, ']');
  EXPECT_THAT(refusal(legacy(deep)), HasSubstr("1048576 values on its stack"));
  EXPECT_THAT(refusal(legacy(std::string(1'100'000, '('))), HasSubstr("nested too deeply"));
  std::string nested = "]";
  for (int i = 0; i < 1'000'000; ++i) nested += "\x85";
  EXPECT_THAT(refusal(legacy(nested)), HasSubstr("not a dict of tensors"));
  std::string memo = "}";
  for (std::uint32_t i = 0; i <= 1 << 20; ++i) memo += "r" + little_endian(i, 4);
  EXPECT_THAT(refusal(legacy(memo)), HasSubstr("memoizes more than 1048576 values"));
  std::string longest = "}";
  while (longest.size() <= 1 << 23) longest += "Nb";
  EXPECT_THAT(refusal(legacy(longest)), HasSubstr("the pickle is longer than 8388608 bytes"));
  EXPECT_THAT(refusal(legacy("}" + text(std::string(70'000, 'x')))),
              HasSubstr("a text of 70000 bytes; at most 65536 are allowed"));
  EXPECT_THAT(refusal(legacy("X\xff\xff\xff\xff")), HasSubstr("at most 65536"));
}

TEST(TorchFileTest, AcceptsValuesThatContainThemselves) {
  EXPECT_THAT(refusal(legacy("}q\x01" + text("w") + "h\x01s")),
              HasSubstr("entry \"w\" of the dict is not a tensor"));
}

TEST(TorchFileTest, RejectsStacksThatDoNotFit) {
  for (const std::string& opcodes : {"t"s, "s"s, "}s"s, "(u"s, "}(Ku"s, "R"s, "Q"s, "\x87"s, "e"s,
                                     "}(h\x05u"s, "b"s, "}}"s, "("s, "q\x01"s}) {
    EXPECT_THROW(parse_torch_file(legacy(opcodes), "x.bin"), IoError) << opcodes;
  }
  EXPECT_THAT(refusal(legacy("}" + text("w") + tensor("K\x00"s, "K\x02", "K\x01") + "q\x01s" +
                             text("w") + "h\x01s")),
              HasSubstr("the dict has the name \"w\" twice"));
}

// ---- Hostile archives ---------------------------------------------------------------------------

/// With all occurrences of a text replaced by one of the same length.
std::string replaced(std::string bytes, std::string_view from, std::string_view to) {
  for (std::size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1)) {
    bytes.replace(at, from.size(), to);
  }
  return bytes;
}

TEST(TorchFileTest, RejectsHostileArchives) {
  const std::string good = corpus("views.zip");
  const std::size_t central = good.find("PK\x01\x02");
  ASSERT_NE(central, std::string::npos);
  std::string bytes = good;
  bytes[central + 10] = 8;  // deflated
  EXPECT_THAT(refusal(bytes), HasSubstr("is compressed"));
  bytes = good;
  bytes[central + 8] = 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("is encrypted"));
  EXPECT_THAT(refusal(replaced(good, "/byteorder", "/../../../x")).substr(0, 7), "x.bin: ");
  EXPECT_THAT(refusal(replaced(good, "archive/version", "archive/../../a")),
              HasSubstr("an entry of the archive has the name \"archive/../../a\""));
  EXPECT_THAT(refusal(replaced(good, "archive/data/0", "archive/data/1")),
              HasSubstr("there is no storage \"0\" in the file"));
  EXPECT_THAT(refusal(replaced(good, "archive/data.pkl", "archive/data.pkx")),
              HasSubstr("no data.pkl in it"));
  EXPECT_THAT(refusal(replaced(good, "little", "bigger")), HasSubstr("byteorder must be little"));
  EXPECT_THAT(refusal(good + "PK"), HasSubstr("does not end as an archive"));
  EXPECT_THAT(refusal(good.substr(4)), HasSubstr("not a pickle of torch.save()"));
}

}  // namespace
}  // namespace rotary::internal::torch_file_test
