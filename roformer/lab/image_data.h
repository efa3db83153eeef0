// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Images of the lab `image`: CIFAR-10 from a folder, or drawn shapes.
///
///   DATA/cifar10/train/CLASS/*.jpg   unpacked by: tar xf cifar10_train_a.tar (and _b, and _test)
///   DATA/cifar10/test/CLASS/*.jpg
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "json/json.h"
#include "roformer/lab/lab.h"

namespace rotary::roformer::lab {

struct ImageSet {
  /// [images, 3, size, size], uint8, on the device.
  at::Tensor pixels{};
  /// [images], int64.
  at::Tensor labels{};
};

struct ImageData {
  ImageSet train{};
  ImageSet test{};
  std::int64_t classes = 0;
  std::int64_t size = 0;
};

/// The setting `images`: {"source": "cifar10" or "shapes", "train": 50000, "test": 10000}, at most
/// as many.
internal::Json default_images(bool quick);
/// Throws IoError that names the folder or file, std::invalid_argument for a wrong setting.
ImageData load_images(const internal::Json& setting, const LabOptions& options);

/// Drawn shapes of 32 x 32 pixels: discs, squares, triangles, crosses, rings, diamonds, rows and
/// columns of bars, of random size, place and colours, with noise. The same for the same seed.
ImageSet draw_shapes(std::int64_t count, std::uint64_t seed);
inline constexpr std::int64_t kNumShapes = 8;

/// How the images of a step are chosen and changed.
struct ImageBatchOptions {
  std::int64_t rows = 256;
  /// Crops from images with so many pixels around them; 0: none.
  std::int64_t crop = 4;
  /// Half of the images are mirrored.
  bool flip = true;
  std::uint64_t seed = 0;
};

/// Random images for training, chosen beforehand: a step does nothing on the host but launch.
class ImageBatches {
 public:
  ImageBatches(const ImageData& data, const ImageBatchOptions& options, std::int64_t steps);
  struct Batch {
    /// [rows, 3, size, size], uint8.
    at::Tensor pixels{};
    at::Tensor labels{};
  };
  /// From 1 on.
  Batch at(std::int64_t step) const;

 private:
  at::Tensor padded_;
  at::Tensor labels_;
  /// [steps, rows]: image, first row and column, and whether it is mirrored.
  at::Tensor image_;
  at::Tensor row_;
  at::Tensor column_;
  at::Tensor mirrored_;
  std::int64_t size_;
};

/// Pixels as a model takes them: of mean 0 and standard deviation 1, roughly, in `type`.
at::Tensor normalized(const at::Tensor& pixels, at::ScalarType type);
/// Images of another size, by bilinear interpolation with antialiasing, float32 from 0 to 255.
at::Tensor resized(const at::Tensor& pixels, std::int64_t size);

// ---- JPEG ---------------------------------------------------------------------------------------

/// False in a build without libjpeg.
bool can_read_jpeg();
/// A colour image of `size` x `size` pixels, to [3, size, size]. Throws IoError that names the file
/// for anything else.
void read_jpeg(const std::filesystem::path& path, std::int64_t size, std::uint8_t* to);

}  // namespace rotary::roformer::lab
