// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/image_data.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <string>

#include "roformer/data/random.h"
#include "roformer/lab/settings.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

namespace fs = std::filesystem;
using internal::Json;

constexpr std::int64_t kCifarSize = 32;
/// Most entries of a folder that are looked at: a class has 5,000 images.
constexpr std::size_t kMaxEntries = 100000;

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const bool fits = folders ? it->is_directory() : it->path().extension() == ".jpg";
    if (fits) found.push_back(it->path());
    if (found.size() > kMaxEntries) {
      throw IoError(folder.string(), IoError::kNoOffset,
                    internal::concat("must have at most ", kMaxEntries, " entries"));
    }
  }
  if (error) throw IoError(folder.string(), IoError::kNoOffset, error.message());
  std::ranges::sort(found);
  return found;
}

/// Images of all classes in turn, so that the first ones are of all classes.
std::vector<std::pair<fs::path, std::int64_t>> image_files(const std::vector<fs::path>& classes,
                                                           std::int64_t at_most) {
  std::vector<std::vector<fs::path>> files;
  std::size_t longest = 0;
  for (const fs::path& folder : classes) {
    files.push_back(sorted_entries(folder, false));
    longest = std::max(longest, files.back().size());
  }
  std::vector<std::pair<fs::path, std::int64_t>> all;
  for (std::size_t i = 0; i < longest; ++i) {
    for (std::size_t c = 0; c < files.size(); ++c) {
      if (i >= files[c].size() || static_cast<std::int64_t>(all.size()) >= at_most) continue;
      all.emplace_back(files[c][i], static_cast<std::int64_t>(c));
    }
  }
  return all;
}

ImageSet empty_set(std::int64_t count, std::int64_t size) {
  return {.pixels = at::empty({count, 3, size, size}, at::kByte),
          .labels = at::empty({count}, at::kLong)};
}

ImageSet read_folder(const fs::path& folder, const std::vector<std::string>& classes,
                     std::int64_t at_most) {
  std::vector<fs::path> folders;
  for (const std::string& name : classes) folders.push_back(folder / name);
  const auto files = image_files(folders, at_most);
  if (files.empty()) throw IoError(folder.string(), IoError::kNoOffset, "has no .jpg files");
  const auto count = static_cast<std::int64_t>(files.size());
  ImageSet set = empty_set(count, kCifarSize);
  auto* pixels = set.pixels.mutable_data_ptr<std::uint8_t>();
  auto* labels = set.labels.mutable_data_ptr<std::int64_t>();
  const std::int64_t bytes = 3 * kCifarSize * kCifarSize;
  at::parallel_for(0, count, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& [path, label] = files[static_cast<std::size_t>(i)];
      read_jpeg(path, kCifarSize, pixels + i * bytes);
      labels[i] = label;
    }
  });
  return set;
}

ImageData read_cifar(const fs::path& data, std::int64_t train, std::int64_t test) {
  const fs::path folder = data / "cifar10";
  if (!fs::is_directory(folder / "train") || !fs::is_directory(folder / "test")) {
    throw IoError(folder.string(), IoError::kNoOffset,
                  "must have the folders train and test: unpack cifar10_train_a.tar, "
                  "cifar10_train_b.tar and cifar10_test.tar there with tar xf");
  }
  std::vector<std::string> classes;
  for (const fs::path& path : sorted_entries(folder / "train", true)) {
    classes.push_back(path.filename().string());
  }
  return {.train = read_folder(folder / "train", classes, train),
          .test = read_folder(folder / "test", classes, test),
          .classes = static_cast<std::int64_t>(classes.size()),
          .size = kCifarSize};
}

/// Whether the point (x, y) is in a shape of radius 1.
bool is_inside(std::int64_t shape, double x, double y) {
  const double ax = std::abs(x);
  const double ay = std::abs(y);
  const double r = std::sqrt(x * x + y * y);
  const bool in_square = ax <= 0.85 && ay <= 0.85;
  const auto odd_stripe = [](double t) {
    return static_cast<std::int64_t>(std::floor((t + 1.0) * 2.5)) % 2 == 0;
  };
  switch (shape) {
    case 0:
      return r <= 1.0;
    case 1:
      return in_square;
    case 2:
      return y <= 0.8 && ax <= (y + 1.0) * 0.5;
    case 3:
      return in_square && (ax <= 0.28 || ay <= 0.28);
    case 4:
      return r <= 1.0 && r >= 0.6;
    case 5:
      return ax + ay <= 1.0;
    case 6:
      return in_square && odd_stripe(y);
    default:
      return in_square && odd_stripe(x);
  }
}

void draw_shape(std::int64_t shape, Random& random, std::int64_t size, std::uint8_t* to) {
  const auto side = static_cast<double>(size);
  const double radius = side * (0.2 + 0.2 * random.uniform());
  const double x0 = radius + (side - 2 * radius) * random.uniform();
  const double y0 = radius + (side - 2 * radius) * random.uniform();
  std::array<double, 3> inside{};
  std::array<double, 3> outside{};
  for (std::size_t c = 0; c < 3; ++c) {
    inside[c] = 255.0 * random.uniform();
    outside[c] = std::fmod(inside[c] + 90.0 + 75.0 * random.uniform(), 255.0);
  }
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      const double x = (static_cast<double>(j) + 0.5 - x0) / radius;
      const double y = (static_cast<double>(i) + 0.5 - y0) / radius;
      const auto& colour = is_inside(shape, x, y) ? inside : outside;
      for (std::int64_t c = 0; c < 3; ++c) {
        const double noisy = colour[static_cast<std::size_t>(c)] + 40.0 * (random.uniform() - 0.5);
        to[(c * size + i) * size + j] = static_cast<std::uint8_t>(std::clamp(noisy, 0.0, 255.0));
      }
    }
  }
}

/// [steps, rows] random numbers below n.
at::Tensor random_below(std::int64_t n, at::IntArrayRef sizes, std::uint64_t seed,
                        std::uint64_t stream) {
  Random random(seed, stream);
  at::Tensor all = at::empty(sizes, at::kLong);
  auto* out = all.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    out[i] = random.below(static_cast<std::uint32_t>(n));
  }
  return all;
}

}  // namespace

Json default_images(bool quick) {
  return {{"source", quick ? "shapes" : "cifar10"},
          {"train", quick ? 4000 : 50000},
          {"test", quick ? 400 : 10000}};
}

ImageSet draw_shapes(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kSize = 32;
  ImageSet set = empty_set(count, kSize);
  auto* pixels = set.pixels.mutable_data_ptr<std::uint8_t>();
  auto* labels = set.labels.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<std::uint64_t>(i));
    labels[i] = i % kNumShapes;
    draw_shape(labels[i], random, kSize, pixels + i * 3 * kSize * kSize);
  }
  return set;
}

ImageData load_images(const Json& setting, const LabOptions& options) {
  const Settings settings(setting);
  const std::int64_t train = settings.integer("train", 1);
  const std::int64_t test = settings.integer("test", 1);
  const std::string source = settings.text("source");
  ImageData data;
  if (source == "cifar10") {
    data = read_cifar(options.data, train, test);
  } else if (source == "shapes") {
    data = {.train = draw_shapes(train, 1),
            .test = draw_shapes(test, 2),
            .classes = kNumShapes,
            .size = 32};
  } else {
    internal::reject("[lab image] images.source must be cifar10 or shapes, got ", source);
  }
  for (ImageSet* set : {&data.train, &data.test}) {
    set->pixels = set->pixels.to(options.device);
    set->labels = set->labels.to(options.device);
  }
  return data;
}

ImageBatches::ImageBatches(const ImageData& data, const ImageBatchOptions& options,
                           std::int64_t steps)
    : padded_(at::constant_pad_nd(data.train.pixels,
                                  {options.crop, options.crop, options.crop, options.crop}, 128)),
      labels_(data.train.labels),
      size_(data.size) {
  const std::array<std::int64_t, 2> sizes = {steps, options.rows};
  const auto random = [&](std::int64_t n, std::uint64_t stream) {
    return random_below(n, sizes, options.seed, stream).to(padded_.device());
  };
  image_ = random(padded_.size(0), 0);
  row_ = random(2 * options.crop + 1, 1);
  column_ = random(2 * options.crop + 1, 2);
  mirrored_ = random(options.flip ? 2 : 1, 3).to(at::kBool);
}

ImageBatches::Batch ImageBatches::at(std::int64_t step) const {
  const at::Tensor image = image_[step - 1];
  const at::Tensor pixel = at::arange(size_, image.options());
  const at::Tensor across = at::where(mirrored_[step - 1].unsqueeze(1), size_ - 1 - pixel, pixel);
  const at::Tensor rows = row_[step - 1].unsqueeze(1) + pixel;  // [rows, size]
  const at::Tensor columns = column_[step - 1].unsqueeze(1) + across;
  const at::Tensor channel = at::arange(3, image.options());
  return {
      .pixels = at::index(padded_, {image.view({-1, 1, 1, 1}), channel.view({3, 1, 1}),
                                    rows.view({-1, 1, size_, 1}), columns.view({-1, 1, 1, size_})}),
      .labels = labels_.index_select(0, image)};
}

at::Tensor normalized(const at::Tensor& pixels, at::ScalarType type) {
  constexpr double kMean = 120.0;  // of CIFAR-10, over all channels
  constexpr double kDeviation = 64.0;
  return ((pixels.to(at::kFloat) - kMean) / kDeviation).to(type);
}

at::Tensor resized(const at::Tensor& pixels, std::int64_t size) {
  const at::Tensor real = pixels.to(at::kFloat);
  if (size == pixels.size(-1)) return real;
  return at::_upsample_bilinear2d_aa(real, at::IntArrayRef({size, size}), /*align_corners=*/false);
}

}  // namespace rotary::roformer::lab
