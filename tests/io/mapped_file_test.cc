// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>

#include <utility>

#include "io/io_testing.h"
#include "rotary/io.h"

namespace rotary::mapped_file_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(IoErrorTest, HasPathOffsetAndMessage) {
  const IoError error("a/b.npy", 12, "no such dtype");
  EXPECT_STREQ(error.what(), "a/b.npy: no such dtype (at byte 12)");
  EXPECT_EQ(error.path(), "a/b.npy");
  EXPECT_EQ(error.offset(), 12);
}

TEST(IoErrorTest, OmitsAnUnknownOffset) {
  const IoError error("b.npy", IoError::kNoOffset, "cannot open");
  EXPECT_STREQ(error.what(), "b.npy: cannot open");
  EXPECT_EQ(error.offset(), -1);
}

TEST(IoErrorTest, OutlivesItsCopies) {
  IoError copy("", 0, "");
  {
    const IoError original("path", 1, "text");
    copy = original;
  }
  EXPECT_STREQ(copy.what(), "path: text (at byte 1)");
}

TEST(MappedFileTest, MapsTheBytes) {
  const TemporaryFolder folder;
  const std::string content("a\0b\nc", 5);
  write_file(folder / "file", content);
  const MappedFile file(folder / "file");
  EXPECT_EQ(file.bytes(), content);
}

TEST(MappedFileTest, EmptyFile) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  const MappedFile file(folder / "file");
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFileTest, OutlivesTheDirectoryEntry) {
  const TemporaryFolder folder;
  write_file(folder / "file", "still here");
  const MappedFile file(folder / "file");
  std::filesystem::remove(folder / "file");
  EXPECT_EQ(file.bytes(), "still here");
}

TEST(MappedFileTest, RejectsAMissingFile) {
  const TemporaryFolder folder;
  const IoError error = io_error_of([&] { MappedFile(folder / "absent"); });
  EXPECT_THAT(error.what(), StartsWith((folder / "absent").string() + ": cannot open: "));
  EXPECT_THAT(error.what(), EndsWith(std::strerror(ENOENT)));
  EXPECT_EQ(error.offset(), IoError::kNoOffset);
}

TEST(MappedFileTest, RejectsAFolder) {
  const TemporaryFolder folder;
  const IoError error = io_error_of([&] { MappedFile(folder.path()); });
  EXPECT_THAT(error.what(), HasSubstr("is a directory"));
}

TEST(MappedFileTest, RejectsAPipeWithoutWaitingForAWriter) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const IoError error = io_error_of([&] { MappedFile(folder / "pipe"); });
  EXPECT_THAT(error.what(), HasSubstr("is not a regular file"));
}

TEST(MappedFileTest, RejectsADevice) {
  const IoError error = io_error_of([] { MappedFile("/dev/null"); });
  EXPECT_THAT(error.what(), HasSubstr("is not a regular file"));
}

TEST(TensorTest, ViewIsRowMajor) {
  Tensor tensor{.name = {}, .dtype = DType::kFloat32, .shape = {2, 3, 4}, .bytes = {}};
  tensor.bytes.resize(96);
  EXPECT_EQ(tensor.num_elements(), 24);
  const TensorView view = tensor.view();
  EXPECT_EQ(view.data, tensor.bytes.data());
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.shape, (Dims{2, 3, 4, 0}));
  EXPECT_EQ(view.strides, (Dims{12, 4, 1, 0}));
  EXPECT_EQ(std::as_const(tensor).view().data, tensor.bytes.data());
}

TEST(TensorTest, ViewRejectsMismatchedBytes) {
  Tensor tensor;
  tensor.shape = {1, 1, 1, 1, 1};
  tensor.bytes.resize(4);
  EXPECT_THROW(tensor.view(), std::invalid_argument);
  tensor.shape = {2};
  EXPECT_THROW(tensor.view(), std::invalid_argument);
  tensor.shape = {-1, -1};
  EXPECT_THROW(tensor.view(), std::invalid_argument);
  tensor.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THROW(tensor.view(), std::invalid_argument);
  tensor.shape = {};
  EXPECT_EQ(tensor.view().num_elements(), 1);
}

}  // namespace
}  // namespace rotary::mapped_file_test
