// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/file_reader.h"

#include <filesystem>

#include "io/io_testing.h"
#include "io/json_file.h"
#include "rotary/model.h"

namespace rotary::internal::file_reader_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FileReaderTest, ReadsParts) {
  const TemporaryFolder folder;
  write_file(folder / "file", "0123456789");
  const FileReader file(folder / "file");
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(file.read(3, 4), "3456");
  EXPECT_EQ(file.read(10, 0), "");
  EXPECT_EQ(read_small_file(folder / "file"), "0123456789");
}

TEST(FileReaderTest, TruncationIsAnError) {
  const TemporaryFolder folder;
  write_file(folder / "file", std::string(100'000, 'x'));
  const FileReader file(folder / "file");
  std::filesystem::resize_file(folder / "file", 10);
  EXPECT_THAT([&] { static_cast<void>(file.read(0, 100'000)); },
              ThrowsMessage<IoError>(HasSubstr("it was longer when it was opened (at byte 10)")));
}

TEST(FileReaderTest, RefusesLongFiles) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  std::filesystem::resize_file(folder / "file", (std::uintmax_t{1} << 24) + 1);
  EXPECT_THAT([&] { static_cast<void>(read_small_file(folder / "file")); },
              ThrowsMessage<IoError>(HasSubstr("file: longer than 16 MiB")));
  EXPECT_THROW(static_cast<void>(read_json_file(folder / "file")), IoError);
}

TEST(FileReaderTest, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(FileReader(folder / "none"), IoError);
  EXPECT_THROW(FileReader{folder.path()}, IoError);
  EXPECT_THROW(FileReader("/dev/null"), IoError);
}

}  // namespace
}  // namespace rotary::internal::file_reader_test
