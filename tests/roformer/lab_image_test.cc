// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `image` at a setting of seconds, its model and its data.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <set>

#include "lab_testing.h"
#include "roformer/lab/image_data.h"
#include "roformer/lab/vit.h"
#include "rotary/error.h"

namespace rotary::roformer::lab {
namespace {

using testing::HasSubstr;

constexpr const char* kTinyImages = R"({"steps": 6, "warmup_steps": 1, "rows": 4, "sizes": [24, 32],
  "model": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 16},
  "images": {"train": 16, "test": 16}})";

class ImageLabTest : public LabTest {};

TEST_F(ImageLabTest, EveryEncodingHasItsRowsAndASecondRunIsTheSame) {
  const LabInfo& info = find_lab("image");
  const Results once = run(info, options(kTinyImages, "once"));
  EXPECT_THAT(
      variants_of(once, "accuracy"),
      testing::ElementsAre("none", "learned", "sinusoidal 2-D", "axial RoPE", "RoPE-Mixed"));
  EXPECT_THAT(values_of(once, "accuracy", "size"), testing::ElementsAre(24.0, 32.0));
  EXPECT_EQ(values_of(once, "training_loss", "step").size(), 6U);
  EXPECT_EQ(repeatable(run(info, options(kTinyImages, "twice"))), repeatable(once));
  Report report;
  info.report(once, report);
  EXPECT_THAT(report.markdown(), HasSubstr("2403.13298"));
}

TEST_F(ImageLabTest, ConfigAddsAnEncoding) {
  const auto with = [&](const std::string& more) {
    std::string config = kTinyImages;
    config.insert(config.size() - 1, R"(, "encodings": [{"name": "mine", "encoding": "axial",
        "theta": 50.0)" + more + "}]");
    LabOptions one = options(config, "mine");
    one.variants = {"mine"};
    return run(find_lab("image"), one);
  };
  EXPECT_THAT(variants_of(with(""), "accuracy"), testing::ElementsAre("mine"));
  EXPECT_THAT(thrown([&] { with(R"(, "encoding_rate": 3)"); }),
              HasSubstr("mine: no key encoding_rate in this entry"));
}

TEST_F(ImageLabTest, UnitsContinueWhereTheyWereInterrupted) {
  expect_repeatable("image", kTinyImages, {"learned", "RoPE-Mixed"});
}

TEST_F(ImageLabTest, InterruptedUnitLeavesACheckpointThatIsChecked) {
  const LabInfo& info = find_lab("image");
  LabOptions one = options(kTinyImages);
  one.variants = {"none"};
  int calls = 0;
  run(info, one, /*expect_done=*/false, [&] { return ++calls > 4; });
  const auto checkpoint = one.folder / "runs" / "none-0" / "model.safetensors";
  ASSERT_TRUE(std::filesystem::exists(checkpoint));
  std::filesystem::resize_file(checkpoint, 100);
  const Results damaged = run(info, one);
  ASSERT_EQ(damaged.rows.size(), 1U);
  EXPECT_EQ(damaged.rows[0].metric, kFailed);
  EXPECT_THAT(damaged.rows[0].note, HasSubstr("model.safetensors"));
}

TEST_F(ImageLabTest, RejectsSizesThatPatchesDoNotFit) {
  EXPECT_THAT([&] { find_lab("image").make(options(R"({"sizes": [30]})")); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("[lab image] sizes must be multiples of patch, 4, got 30")));
}

TEST_F(ImageLabTest, NamesTheFolderThatIsMissing) {
  EXPECT_THAT([&] { find_lab("image").make(options(R"({"images": {"source": "cifar10"}})")); },
              testing::ThrowsMessage<IoError>(HasSubstr("must have the folders train and test")));
}

/// A JPEG of 8 x 8 pixels: the left half red (200, 40, 40), the right half blue (30, 60, 210).
constexpr auto kRedAndBlue = std::to_array<unsigned char>(
    {0xff, 0xd8, 0xff, 0xe0, 0x00, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x00, 0x01, 0x01, 0x00, 0x00, 0x01,
     0x00, 0x01, 0x00, 0x00, 0xff, 0xdb, 0x00, 0x43, 0x00, 0x08, 0x06, 0x06, 0x07, 0x06, 0x05, 0x08,
     0x07, 0x07, 0x07, 0x09, 0x09, 0x08, 0x0a, 0x0c, 0x14, 0x0d, 0x0c, 0x0b, 0x0b, 0x0c, 0x19, 0x12,
     0x13, 0x0f, 0x14, 0x1d, 0x1a, 0x1f, 0x1e, 0x1d, 0x1a, 0x1c, 0x1c, 0x20, 0x24, 0x2e, 0x27, 0x20,
     0x22, 0x2c, 0x23, 0x1c, 0x1c, 0x28, 0x37, 0x29, 0x2c, 0x30, 0x31, 0x34, 0x34, 0x34, 0x1f, 0x27,
     0x39, 0x3d, 0x38, 0x32, 0x3c, 0x2e, 0x33, 0x34, 0x32, 0xff, 0xdb, 0x00, 0x43, 0x01, 0x09, 0x09,
     0x09, 0x0c, 0x0b, 0x0c, 0x18, 0x0d, 0x0d, 0x18, 0x32, 0x21, 0x1c, 0x21, 0x32, 0x32, 0x32, 0x32,
     0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32,
     0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32,
     0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0xff, 0xc0,
     0x00, 0x11, 0x08, 0x00, 0x08, 0x00, 0x08, 0x03, 0x01, 0x11, 0x00, 0x02, 0x11, 0x01, 0x03, 0x11,
     0x01, 0xff, 0xc4, 0x00, 0x14, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
     0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0xff, 0xc4, 0x00, 0x17, 0x10, 0x00, 0x03, 0x01, 0x00,
     0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x42, 0x81,
     0xff, 0xc4, 0x00, 0x14, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
     0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0xff, 0xc4, 0x00, 0x18, 0x11, 0x00, 0x02, 0x03, 0x00, 0x00,
     0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0x43, 0x82, 0xc2,
     0xff, 0xda, 0x00, 0x0c, 0x03, 0x01, 0x00, 0x02, 0x11, 0x03, 0x11, 0x00, 0x3f, 0x00, 0x1a, 0xe4,
     0x68, 0xc2, 0xa4, 0xd5, 0xd0, 0xc3, 0x5c, 0x36, 0xc9, 0xff, 0xd9});

TEST_F(ImageLabTest, ReadsAJpeg) {
  const auto image = file("image.jpg", std::string(kRedAndBlue.begin(), kRedAndBlue.end()));
  std::vector<std::uint8_t> pixels(3 * 8 * 8);
  if (!can_read_jpeg()) {
    EXPECT_THROW(read_jpeg(image, 8, pixels.data()), IoError);
    return;
  }
  read_jpeg(image, 8, pixels.data());
  const int left[] = {200, 40, 40};
  const int right[] = {30, 60, 210};
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t colour = i / 64;
    EXPECT_NEAR(pixels[i], i % 8 < 4 ? left[colour] : right[colour], 30) << i;
  }
  EXPECT_THROW(read_jpeg(image, 16, pixels.data()), IoError);
}

TEST_F(ImageLabTest, RejectsFilesThatAreNoJpeg) {
  std::filesystem::create_directories(path("data"));
  std::vector<std::uint8_t> to(3 * 32 * 32);
  for (const char* bytes : {"", "no image", "\xff\xd8\xff\xe0"}) {
    const auto broken = file("data/broken.jpg", bytes);
    EXPECT_THROW(read_jpeg(broken, 32, to.data()), IoError);
  }
}

VitConfig tiny_vit(PatchEncoding encoding) {
  VitConfig config{.encoding = encoding, .theta = 10.0, .classes = 5};
  config.layers.hidden_size = 32;
  config.layers.num_hidden_layers = 2;
  config.layers.num_attention_heads = 2;
  config.layers.intermediate_size = 32;
  return config;
}

/// The patches of an image in another order.
at::Tensor permuted(const at::Tensor& images, std::int64_t patch, const at::Tensor& order) {
  const std::int64_t side = images.size(2) / patch;
  const at::Tensor grid = images.unflatten(3, {side, patch}).unflatten(2, {side, patch});
  const at::Tensor moved = grid.permute({0, 2, 4, 1, 3, 5}).flatten(1, 2).index_select(1, order);
  return moved.unflatten(1, {side, side}).permute({0, 3, 1, 4, 2, 5}).flatten(4).flatten(2, 3);
}

TEST(Vit, IsBlindToTheOrderOfPatchesWithoutAnEncodingOnly) {
  at::manual_seed(1);
  const at::Tensor images = at::randn({3, 3, 32, 32});
  const at::Tensor same = permuted(images, 4, at::arange(64));
  EXPECT_TRUE(at::equal(same, images));
  const at::Tensor other = permuted(images, 4, at::randperm(64));
  for (const auto& [encoding, sees] :
       {std::pair(PatchEncoding::kNone, false), std::pair(PatchEncoding::kLearned, true),
        std::pair(PatchEncoding::kSinusoidal, true), std::pair(PatchEncoding::kAxial, true),
        std::pair(PatchEncoding::kMixed, true)}) {
    const at::NoGradGuard no_grad;
    const Vit model = make_vit(tiny_vit(encoding), 3, at::kCPU);
    for (const at::Tensor& parameter : model->parameters()) {
      if (parameter.dim() == 2) parameter.mul_(10.0);  // so that attention is not flat
    }
    const double apart =
        (model->forward(images) - model->forward(other)).abs().max().item<double>();
    EXPECT_EQ(apart > 1e-4, sees) << static_cast<int>(encoding) << " " << apart;
  }
}

TEST(Vit, TakesOtherSizesAndLearns) {
  for (const PatchEncoding encoding : {PatchEncoding::kLearned, PatchEncoding::kMixed}) {
    const Vit model = make_vit(tiny_vit(encoding), 3, at::kCPU);
    EXPECT_EQ(model->forward(at::randn({2, 3, 48, 24})).sizes().vec(),
              (std::vector<std::int64_t>{2, 5}));
    model->forward(at::randn({2, 3, 32, 32})).square().sum().backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined()) << item.key();
    }
  }
}

TEST(Images, ShapesAreTheSameForASeedAndOfAllKinds) {
  const ImageSet a = draw_shapes(32, 1);
  EXPECT_TRUE(at::equal(a.pixels, draw_shapes(32, 1).pixels));
  EXPECT_FALSE(at::equal(a.pixels, draw_shapes(32, 2).pixels));
  EXPECT_EQ(std::get<0>(at::_unique(a.labels)).size(0), kNumShapes);
}

TEST(Images, BatchesAreCropsOfTheImagesMirroredOrNot) {
  const ImageData data{
      .train = draw_shapes(8, 1), .test = draw_shapes(8, 2), .classes = kNumShapes, .size = 32};
  const ImageBatches batches(data, {.rows = 6, .crop = 2, .seed = 5}, 2);
  EXPECT_FALSE(at::equal(batches.at(1).pixels, batches.at(2).pixels));
  const ImageBatches::Batch batch = batches.at(1);
  const at::Tensor padded = at::constant_pad_nd(data.train.pixels, {2, 2, 2, 2}, 128);
  for (std::int64_t i = 0; i < 6; ++i) {
    bool found = false;
    for (std::int64_t y = 0; y < 5; ++y) {
      for (std::int64_t x = 0; x < 5; ++x) {
        const at::Tensor crop =
            padded[batch.labels[i].item<std::int64_t>()].narrow(1, y, 32).narrow(2, x, 32);
        found =
            found || at::equal(crop, batch.pixels[i]) || at::equal(crop.flip(2), batch.pixels[i]);
      }
    }
    EXPECT_TRUE(found) << i;
  }
}

TEST(Images, ResizingKeepsWhatDoesNotChange) {
  const at::Tensor flat = at::full({1, 3, 32, 32}, 77, at::kByte);
  for (const std::int64_t size : {24, 32, 64}) {
    const at::Tensor other = resized(flat, size);
    EXPECT_EQ(other.size(3), size);
    EXPECT_LT((other - 77.0).abs().max().item<double>(), 1e-3);
  }
}

}  // namespace
}  // namespace rotary::roformer::lab
