// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <numeric>
#include <thread>

#include "io/io_testing.h"
#include "rotary/io.h"

namespace rotary {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::array kDTypes{DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                             DType::kFloat64, DType::kInt32,    DType::kInt64};

/// 24 elements of any type with distinct adjacent bytes.
std::string some_bytes(DType dtype) {
  std::string data(24 * size_of(dtype), '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(37 * i + i / 256);
  return data;
}

ConstTensorView view_of(const std::string& data, DType dtype) {
  return ConstTensorView::contiguous(data.data(), dtype, {2, 3, 4});
}

TEST(WriteTensorTest, RoundTripOfEveryDtypeAndFormat) {
  const TemporaryFolder folder;
  for (const char* name : {"x.npy", "x.safetensors"}) {
    for (const DType dtype : kDTypes) {
      if (dtype == DType::kBFloat16 && std::string_view(name) == "x.npy") continue;
      const std::string data = some_bytes(dtype);
      write_tensor(folder / name, view_of(data, dtype), "weights.q");
      const Tensor back = read_tensor(folder / name);
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.shape, (std::vector<std::int64_t>{2, 3, 4}));
      EXPECT_EQ(bytes_of(back.bytes), data) << name << " " << name_of(dtype);
    }
  }
  EXPECT_EQ(read_tensor(folder / "x.safetensors").name, "weights.q");
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(WriteTensorTest, RoundTripOfEveryRank) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kFloat32);
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {}, {1}, {24}, {6, 4}, {1, 24, 1}, {2, 3, 2, 2}, {0}, {3, 0, 2}}) {
    ConstTensorView view{.data = data.data()};
    view.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      view.shape[d] = shape[d];
      view.strides[d] = stride;
    }
    for (const char* name : {"x.npy", "x.safetensors"}) {
      write_tensor(folder / name, view);
      const Tensor back = read_tensor(folder / name);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(bytes_of(back.bytes), data.substr(0, 4 * std::size_t(view.num_elements())));
    }
  }
}

struct Strided {
  const char* name;
  Dims shape;
  Dims strides;
  std::int64_t start;
};
class WriteStridedTest : public ::testing::TestWithParam<Strided> {};

TEST_P(WriteStridedTest, WritesRowMajor) {
  const auto& [name, shape, strides, start] = GetParam();
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kFloat16, DType::kInt32, DType::kFloat64}) {
    const std::size_t size = size_of(dtype);
    std::string data(200 * size, '\0');
    std::iota(data.begin(), data.end(), '\0');
    const ConstTensorView view{.data = data.data() + std::size_t(start) * size,
                               .dtype = dtype,
                               .rank = 4,
                               .shape = shape,
                               .strides = strides};
    std::string expected;
    for (std::int64_t i = 0; i < shape[0]; ++i)
      for (std::int64_t j = 0; j < shape[1]; ++j)
        for (std::int64_t k = 0; k < shape[2]; ++k)
          for (std::int64_t l = 0; l < shape[3]; ++l)
            expected += data.substr(std::size_t(start + i * strides[0] + j * strides[1] +
                                                k * strides[2] + l * strides[3]) *
                                        size,
                                    size);
    write_tensor(folder / "x.npy", view);
    EXPECT_EQ(bytes_of(read_tensor(folder / "x.npy").bytes), expected);
    write_tensor(folder / "x.safetensors", view);
    EXPECT_EQ(bytes_of(read_tensor(folder / "x.safetensors").bytes), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, WriteStridedTest,
    ::testing::Values(Strided{"Contiguous", {2, 3, 4, 5}, {60, 20, 5, 1}, 0},
                      Strided{"Transposed", {5, 4, 3, 2}, {1, 5, 20, 60}, 0},
                      Strided{"HeadsBeforeTokens", {2, 4, 3, 5}, {60, 5, 20, 1}, 0},
                      Strided{"RowsWithGaps", {2, 3, 4, 3}, {60, 20, 5, 1}, 1},
                      Strided{"EverySecond", {2, 3, 4, 2}, {60, 20, 5, 2}, 0},
                      Strided{"EverySecondOfAll", {1, 1, 1, 100}, {0, 0, 0, 2}, 0},
                      Strided{"Repeated", {2, 3, 4, 5}, {0, 5, 0, 1}, 7},
                      Strided{"AllTheSame", {2, 3, 4, 5}, {0, 0, 0, 0}, 9},
                      Strided{"Backwards", {2, 3, 4, 5}, {-60, -20, -5, -1}, 119},
                      Strided{"ExtentsOfOne", {1, 3, 1, 5}, {999, 10, -999, 1}, 0},
                      Strided{"OneElement", {1, 1, 1, 1}, {3, 3, 3, 3}, 42}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(WriteTensorTest, TensorsLargerThanTheBuffer) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> values(3'000'000);
  std::iota(values.begin(), values.end(), 0);
  for (const std::int64_t gap : {0, 1}) {  // One long row, and many rows of 1.2 MB or 4 bytes.
    for (const std::int64_t row : {1, 1000, 300'000}) {
      const std::int64_t rows = 3'000'000 / (row + gap);
      const ConstTensorView view{.data = values.data(),
                                 .dtype = DType::kInt32,
                                 .rank = 2,
                                 .shape = {rows, row},
                                 .strides = {row + gap, 1}};
      write_tensor(folder / "x.npy", view);
      const auto back = values_of<std::int32_t>(read_tensor(folder / "x.npy").bytes);
      ASSERT_EQ(back.size(), static_cast<std::size_t>(rows * row));
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < rows * row; ++i) {
        wrong += back[std::size_t(i)] != i / row * (row + gap) + i % row;
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(WriteTensorTest, NpyIsByteForByteWhatNumpyWrites) {
  const TemporaryFolder folder;
  const std::vector<float> values{1, 2, 3};
  write_tensor(folder / "x.npy", ConstTensorView::contiguous(values.data(), DType::kFloat32, {3}));
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  EXPECT_EQ(read_file(folder / "x.npy"), std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text +
                                             std::string(117 - text.size(), ' ') + "\n" +
                                             bytes_of(values));
}

TEST(WriteTensorTest, ElementsBeginAtAlignedOffsets) {
  const TemporaryFolder folder;
  const std::string data(8, 'x');
  for (int length = 1; length < 70; ++length) {
    write_tensor(folder / "x.safetensors",
                 ConstTensorView::contiguous(data.data(), DType::kFloat64, {1}),
                 std::string(std::size_t(length), 'n'));
    EXPECT_EQ(read_file(folder / "x.safetensors").size() % 8, 0u);
  }
  for (const DType dtype : {DType::kFloat16, DType::kFloat64}) {
    write_tensor(folder / "x.npy", ConstTensorView::contiguous(data.data(), dtype, {1, 1, 1}));
    EXPECT_EQ((read_file(folder / "x.npy").size() - size_of(dtype)) % 64, 0u);
  }
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(WriteTensorTest, FollowsTheUmaskAndKeepsTheModeOfAReplacedFile) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  const mode_t before = ::umask(027);
  write_tensor(folder / "x.npy", view_of(data, DType::kInt64));
  EXPECT_EQ(mode_of(folder / "x.npy"), 0640u);
  write_file(folder / "x.npy", "old");
  ASSERT_EQ(::chmod((folder / "x.npy").c_str(), 0604), 0);
  write_tensor(folder / "x.npy", view_of(data, DType::kInt64));
  EXPECT_EQ(mode_of(folder / "x.npy"), 0604u);
  ::umask(before);
  EXPECT_EQ(bytes_of(read_tensor(folder / "x.npy").bytes), data);
  EXPECT_THAT(folder.names(), ElementsAre("x.npy"));
}

TEST(WriteWithTensorTest, RejectsAnotherShapeTypeNameOrFormat) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  const ConstTensorView view = view_of(data, DType::kInt64);
  const std::filesystem::path file = folder / "x.safetensors";
  write_tensor(file, view, "q");
  const std::string before = read_file(file);
  ConstTensorView other_type = view;
  other_type.dtype = DType::kFloat64;
  ConstTensorView other_shape = view;
  other_shape.shape[0] += 1;
  EXPECT_THROW(write_with_tensor(file, file, other_type, "q"), std::invalid_argument);
  EXPECT_THROW(write_with_tensor(file, file, other_shape, "q"), std::invalid_argument);
  EXPECT_THROW(write_with_tensor(file, file, view, "k"), IoError);
  EXPECT_THROW(write_with_tensor(file, folder / "x.npy", view, "q"), std::invalid_argument);
  EXPECT_THROW(write_with_tensor(folder / "y.safetensors", file, view, "q"), IoError);
  EXPECT_EQ(read_file(file), before);
  write_with_tensor(file, file, view);  // the only tensor needs no name
  EXPECT_EQ(read_file(file), before);
  EXPECT_THAT(folder.names(), ElementsAre("x.safetensors"));
}

TEST(WriteTensorTest, AcceptsTheLongestNamesAndRelativePaths) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  const std::string name = std::string(251, 'n') + ".npy";
  write_tensor(folder / name, view_of(data, DType::kInt64));
  EXPECT_THAT(folder.names(), ElementsAre(name));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_tensor("plain.npy", view_of(data, DType::kInt64));
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder / "plain.npy"));
}

TEST(WriteTensorTest, ConcurrentWritesAreIndependent) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < 20; ++i) write_tensor(folder / "x.npy", view_of(data, DType::kInt64));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes_of(read_tensor(folder / "x.npy").bytes), data);
  EXPECT_THAT(folder.names(), ElementsAre("x.npy"));
}

// ---- Failures leave no files --------------------------------------------------------------------

TEST(WriteTensorFailureTest, AbsentFolder) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  const auto path = folder / "absent/x.npy";
  const IoError error = io_error_of([&] { write_tensor(path, view_of(data, DType::kInt64)); });
  EXPECT_THAT(error.what(), StartsWith(path.string() + ": cannot create"));
  EXPECT_THAT(error.what(), EndsWith(std::strerror(ENOENT)));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(WriteTensorFailureTest, FolderIsAFile) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  const std::string data = some_bytes(DType::kInt64);
  EXPECT_THROW(write_tensor(folder / "file/x.npy", view_of(data, DType::kInt64)), IoError);
}

TEST(WriteTensorFailureTest, TargetIsAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "x.npy");
  const std::string data = some_bytes(DType::kInt64);
  const IoError error =
      io_error_of([&] { write_tensor(folder / "x.npy", view_of(data, DType::kInt64)); });
  EXPECT_THAT(error.what(), HasSubstr("is a folder"));
  EXPECT_THAT(folder.names(), ElementsAre("x.npy"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "x.npy"));
}

/// Limits the size of files to `bytes` during its lifetime: a larger write fails part-way.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(WriteTensorFailureTest, DiskFullInTheMiddle) {
  const TemporaryFolder folder;
  write_file(folder / "x.npy", "old");
  const std::string data(2 << 20, 'x');
  for (const rlim_t limit : {rlim_t{0}, rlim_t{64}, rlim_t{1000}, rlim_t{1 << 20}}) {
    for (const std::int64_t stride : {1, 2}) {
      const ConstTensorView view{.data = data.data(),
                                 .dtype = DType::kFloat64,
                                 .rank = 1,
                                 .shape = {(2 << 20) / 8 / stride},
                                 .strides = {stride}};
      const FileSizeLimit guard(limit);
      const IoError error = io_error_of([&] { write_tensor(folder / "x.npy", view); });
      EXPECT_THAT(error.what(), HasSubstr("cannot write"));
      EXPECT_THAT(error.what(), EndsWith(std::strerror(EFBIG)));
    }
  }
  EXPECT_THAT(folder.names(), ElementsAre("x.npy"));
  EXPECT_EQ(read_file(folder / "x.npy"), "old");
}

TEST(WriteTensorFailureTest, FolderNotWritable) {
  if (::geteuid() == 0) {
    // root may write everywhere but to the kernel's file systems.
    const std::string data = some_bytes(DType::kInt64);
    EXPECT_THROW(write_tensor("/proc/x.npy", view_of(data, DType::kInt64)), IoError);
    return;
  }
  const TemporaryFolder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string data = some_bytes(DType::kInt64);
  const IoError error =
      io_error_of([&] { write_tensor(folder / "x.npy", view_of(data, DType::kInt64)); });
  EXPECT_THAT(error.what(), EndsWith(std::strerror(EACCES)));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(WriteTensorFailureTest, RejectsBfloat16InNpy) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kBFloat16);
  const IoError error =
      io_error_of([&] { write_tensor(folder / "x.npy", view_of(data, DType::kBFloat16)); });
  EXPECT_THAT(error.what(), HasSubstr("write a .safetensors file instead"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

/// Runs `call`, which must throw std::invalid_argument, and returns its message.
template <typename Call>
std::string rejection(Call&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(WriteTensorFailureTest, RejectsInvalidArguments) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  const ConstTensorView good = view_of(data, DType::kInt64);
  for (const char* name : {"x", "x.bin", "x.NPY", "npy", ".npy"}) {
    EXPECT_THAT(rejection([&] { write_tensor(folder / name, good); }),
                HasSubstr("[write_tensor] the name of the file must end in .npy or .safetensors"));
    EXPECT_THAT(rejection([&] { read_tensor(folder / name); }), StartsWith("[read_tensor]"));
  }
  const auto path = folder / "x.safetensors";
  EXPECT_THAT(rejection([&] { write_tensor(path, good, "__metadata__"); }), HasSubstr("reserved"));
  EXPECT_THAT(rejection([&] { write_tensor(path, good, "\xff"); }), HasSubstr("UTF-8"));
  ConstTensorView bad = good;
  bad.shape[1] = -3;
  EXPECT_THAT(rejection([&] { write_tensor(path, bad); }), HasSubstr("[2, -3, 4]"));
  bad.shape[0] = bad.shape[1] = std::int64_t{1} << 40;
  EXPECT_THAT(rejection([&] { write_tensor(path, bad); }), HasSubstr("overflow"));
  bad = good;
  bad.data = nullptr;
  EXPECT_THAT(rejection([&] { write_tensor(path, bad); }), HasSubstr("must not be null"));
  bad = good;
  bad.rank = 5;
  EXPECT_THAT(rejection([&] { write_tensor(path, bad); }), HasSubstr("rank must be 0 to 4, got 5"));
  bad = good;
  bad.device.type = DeviceType::kCuda;
  EXPECT_THAT(rejection([&] { write_tensor(path, bad); }), HasSubstr("on the CPU"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(ReadTensorTest, NpyRejectsNames) {
  const TemporaryFolder folder;
  const std::string data = some_bytes(DType::kInt64);
  write_tensor(folder / "x.npy", view_of(data, DType::kInt64));
  EXPECT_THAT(rejection([&] { read_tensor(folder / "x.npy", "q"); }), HasSubstr("\"q\""));
}

TEST(ReadTensorTest, ErrorsBeginWithThePath) {
  const TemporaryFolder folder;
  for (const char* name : {"x.npy", "x.safetensors"}) {
    write_file(folder / name, "garbage!!");
    const IoError error = io_error_of([&] { read_tensor(folder / name); });
    EXPECT_THAT(error.what(), StartsWith((folder / name).string() + ": "));
    EXPECT_THAT(error.what(), EndsWith("(at byte 0)"));
  }
  EXPECT_THROW(read_tensor(folder / "absent.npy"), IoError);
}

}  // namespace
}  // namespace rotary
