// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `image`: vision Transformers trained on images of one size, judged on others, for every
// encoding of the patches.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "roformer/lab/cost.h"
#include "roformer/lab/image_data.h"
#include "roformer/lab/image_training.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/training.h"
#include "roformer/lab/vit.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Images that are judged at once.
constexpr std::int64_t kJudgedRows = 500;

Json image_encodings(bool quick) {
  struct Entry {
    const char* name;
    const char* encoding;
    double theta;  // as in RoPE-ViT
  };
  Json all = Json::array();
  for (const Entry& entry :
       {Entry{"none", "none", 0.0}, Entry{"learned", "learned", 0.0},
        Entry{"sinusoidal 2-D", "sinusoidal", 0.0}, Entry{"axial RoPE", "axial", 100.0},
        Entry{"RoPE-Mixed", "mixed", 10.0}}) {
    all.push_back({{"name", entry.name},
                   {"encoding", entry.encoding},
                   {"theta", entry.theta},
                   {"seeds", quick ? 1 : 3}});
  }
  return all;
}

Json image_defaults(bool quick) {
  Json settings = training_defaults(quick ? 300 : 1500, quick ? 2e-3 : 1e-3);
  settings["weight_decay"] = 0.05;
  settings["rows"] = quick ? 32 : 512;
  settings["patch"] = 4;
  settings["crop"] = 4;
  settings["label_smoothing"] = 0.1;
  settings["sizes"] = quick ? std::vector{24, 32, 48} : std::vector{24, 32, 40, 48, 64};
  settings["model"] = {{"hidden_size", quick ? 64 : 192},
                       {"num_hidden_layers", quick ? 2 : 6},
                       {"num_attention_heads", quick ? 4 : 6},
                       {"intermediate_size", quick ? 128 : 768}};
  settings["images"] = default_images(quick);
  settings["encodings"] = image_encodings(quick);
  return settings;
}

class ImageLab final : public Lab {
 public:
  explicit ImageLab(const LabOptions& options)
      : options_(options),
        settings_(merge_settings(image_defaults(options.quick), options.config)),
        plan_(plan_of(settings_, options.device)),
        sizes_(settings_.integers("sizes")),
        encodings_(settings_.list("encodings")),
        data_(load_images(settings_.at("images"), options)) {
    plan_.progress = {0.0, 0.9};
    for (const Json& entry : encodings_) VitImpl(config_of(entry));  // finds what does not fit
    const std::int64_t patch = settings_.integer("patch", 1);
    for (const std::int64_t size : sizes_) {
      if (size < patch || size % patch != 0) {
        throw std::invalid_argument("[lab image] sizes must be multiples of patch, " +
                                    std::to_string(patch) + ", got " + std::to_string(size));
      }
    }
  }

  const Json& settings() const override { return settings_.json(); }
  std::vector<Unit> units() const override { return units_of(encodings_, options_.seeds); }
  /// Small kernels: several models keep a GPU busier than one.
  std::int64_t jobs() const override { return 3; }

  std::vector<Row> run(const UnitRun& run) override {
    const auto seed = static_cast<std::uint64_t>(run.unit.seed);
    const Vit model = make_vit(config_of(entry_of(encodings_, run.unit.variant)), seed, run.device);
    std::int64_t parameters = 0;
    for (const at::Tensor& parameter : model->parameters()) parameters += parameter.numel();
    std::vector<Row> rows = {run.row("parameters", static_cast<double>(parameters))};
    const VitPlan plan{.plan = plan_,
                       .batches = {.rows = settings_.integer("rows", 1),
                                   .crop = settings_.integer("crop"),
                                   .flip = true,
                                   .seed = seed},
                       .label_smoothing = settings_.number("label_smoothing")};
    Trained trained = train_vit(*model, data_, plan, run);
    trained.tokens_per_second *=
        std::pow(static_cast<double>(data_.size / settings_.integer("patch")), 2);
    add_curve(trained, run, rows);
    add_training_cost(trained, run, rows);
    for (const std::int64_t size : sizes_) {
      rows.push_back(
          run.row("accuracy", accuracy(*model, size, run), {{"size", static_cast<double>(size)}}));
    }
    return rows;
  }

 private:
  VitConfig config_of(const Json& entry) const {
    const std::string source = "settings of " + entry.at("name").as_string();
    // Patches have no learning rate of their own for positions.
    check_keys(entry, {"name", "encoding", "theta", "seeds"});
    return {.encoding = patch_encoding_of(entry.at("encoding").as_string()),
            .theta = entry.at("theta").as_double(),
            .patch = settings_.integer("patch", 1),
            .size = data_.size == 0 ? 32 : data_.size,
            .classes = std::max<std::int64_t>(data_.classes, 1),
            .layers = model_config({settings_.at("model")}, source)};
  }

  double accuracy(VitImpl& model, std::int64_t size, const UnitRun& run) const {
    const at::NoGradGuard no_grad;
    at::Tensor right = at::zeros({}, data_.test.labels.options());
    const std::int64_t count = data_.test.labels.size(0);
    for (std::int64_t first = 0; first < count; first += kJudgedRows) {
      if (run.stop && run.stop()) throw Stopped();
      const std::int64_t rows = std::min(kJudgedRows, count - first);
      const at::Tensor images = resized(data_.test.pixels.narrow(0, first, rows), size);
      const at::Tensor logits = model.forward(normalized(images, plan_.options.compute_type));
      right += (logits.argmax(-1) == data_.test.labels.narrow(0, first, rows)).sum();
    }
    return right.item<double>() / static_cast<double>(count);
  }

  LabOptions options_;
  Settings settings_;
  TrainPlan plan_;
  std::vector<std::int64_t> sizes_;
  std::vector<Json> encodings_;
  ImageData data_;
};

}  // namespace

std::unique_ptr<Lab> make_image_lab(const LabOptions& options) {
  return std::make_unique<ImageLab>(options);
}

}  // namespace rotary::roformer::lab
