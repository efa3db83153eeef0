// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of a GGUF file: the keys {architecture}.rope.* and the tensors rope_freqs,
// rope_factors_long and rope_factors_short, read as llama.cpp reads them.

#include "model/gguf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "model/gguf_file.h"
#include "model/lookup.h"
#include "rotary/error.h"
#include "rotary/model.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary {
namespace internal {
namespace {

/// How the key dimension_sections assigns pairs to axes.
enum class Sections : std::uint8_t { kNone, kChunked, kInterleaved };

struct Architecture {
  std::string_view name;
  Pairing pairing;
  Sections sections;
  double theta_swa = 0.0;  // default of sliding-window layers; 0: the same theta as other layers
};

constexpr Architecture kArchitectures[] = {
#include "model/architectures.inc"
};

class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) {
    name_ = std::string(file.string("general.architecture").value_or(""));
    if (name_.empty()) fail("general.architecture is missing");
    const auto found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                    [this](const Architecture& row) { return row.name == name_; });
    if (found != std::end(kArchitectures)) architecture_ = &*found;
    const auto keys = file.keys();
    const bool has_rope_key = std::any_of(keys.begin(), keys.end(), [this](std::string_view one) {
      return one.starts_with(key("rope."));
    });
    if (architecture_ == nullptr && !has_rope_key) {
      fail(concat("no rotation found; architecture ", quote(name_),
                  " is not known and no key speaks of one"));
    }
  }

  Model read() {
    Model model;
    model.model_type = name_;
    ModelRope rope = base_rope();
    const double theta_swa =
        number("rope.freq_base_swa").value_or(architecture_ ? architecture_->theta_swa : 0.0);
    const auto dims_swa = integer("rope.dimension_count_swa");
    if (theta_swa == 0.0 && !dims_swa) {
      model.ropes.push_back(std::move(rope));
      return model;
    }
    rope.name = "full_attention";
    ModelRope sliding = rope;
    sliding.name = "sliding_attention";
    sliding.recipe.scaling = Plain{};
    if (theta_swa != 0.0) sliding.recipe.theta = theta_swa;
    if (!has("rope.freq_base_swa") && theta_swa != 0.0) {
      note(sliding.assumed,
           concat("rope.freq_base_swa = ", theta_swa, " (llama.cpp's for ", quote(name_), ")"));
    }
    if (dims_swa) sliding.recipe.rotary_dim = *dims_swa;
    if (const auto width = integer("attention.key_length_swa")) sliding.layout.head_dim = *width;
    model.ropes = {std::move(rope), std::move(sliding)};
    return model;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    reject("[Model] ", file_.source(), ": ", what);
  }

  std::string key(std::string_view rest) const { return concat(name_, ".", rest); }
  bool has(std::string_view rest) const { return file_.find(key(rest)) != nullptr; }
  std::optional<double> number(std::string_view rest) const { return file_.number(key(rest)); }
  std::optional<std::int64_t> integer(std::string_view rest) const {
    return file_.integer(key(rest));
  }
  std::optional<std::vector<double>> tensor(const std::string& name) const {
    if (auto values = file_.tensor(name + ".weight")) return values;
    return file_.tensor(name);
  }

  std::int64_t head_dim() const {
    if (const auto width = integer("attention.key_length")) return *width;
    const auto embedding = integer("embedding_length");
    const auto heads = file_.numbers(key("attention.head_count"));
    if (!embedding || !heads || heads->empty()) {
      fail("head_dim cannot be determined, attention.key_length is missing");
    }
    const double max_heads = *std::max_element(heads->begin(), heads->end());
    if (!(max_heads >= 1.0)) fail(concat("attention.head_count must be positive, got ", max_heads));
    constexpr std::int64_t kMaxWidth = std::int64_t{1} << 53;  // a double holds it exactly
    if (*embedding < 1 || *embedding > kMaxWidth) {
      fail(concat("embedding_length must be 1 to 2^53, got ", *embedding));
    }
    return static_cast<std::int64_t>(static_cast<double>(*embedding) / max_heads);
  }

  ModelRope base_rope() const {
    ModelRope rope;
    rope.recipe.theta = number("rope.freq_base").value_or(10000.0);
    if (!has("rope.freq_base")) {
      note(rope.assumed, "rope.freq_base = 10000 (llama.cpp's default)");
    }
    read_widths(rope);
    rope.recipe.scaling = scaling(rope);
    read_axes(rope);
    return rope;
  }

  void read_widths(ModelRope& rope) const {
    std::int64_t width = head_dim();
    const std::int64_t rotary = integer("rope.dimension_count").value_or(width);
    if (!has("rope.dimension_count")) {
      note(rope.assumed, concat("rope.dimension_count = ", width, " (the whole head)"));
    }
    // Multi-head latent attention stores the rotary part of a head separately.
    if (has("attention.kv_lora_rank") || has("attention.key_length_mla")) width = rotary;
    rope.layout.head_dim = width;
    rope.recipe.rotary_dim = rotary;
    rope.layout.pairing = architecture_ ? architecture_->pairing : Pairing::kHalf;
    rope.layout.output_pairing = rope.layout.pairing;
    if (architecture_ == nullptr) {
      note(rope.assumed, concat("pairing half (architecture ", quote(name_), " is not known)"));
    }
    const std::int64_t context = integer("context_length").value_or(0);
    rope.context = {.trained = context, .extended = context};
  }

  void read_axes(ModelRope& rope) const {
    auto numbers = file_.numbers(key("rope.dimension_sections"));
    if (!numbers) return;
    std::vector<std::int64_t> sections;
    for (const double n : *numbers) {
      if (!(n >= 0.0 && n <= 0x1p20 && n == std::floor(n))) {
        fail(concat("rope.dimension_sections must be whole numbers, got ", n));
      }
      sections.push_back(static_cast<std::int64_t>(n));
    }
    while (!sections.empty() && sections.back() == 0) sections.pop_back();
    if (sections.empty()) return;
    constexpr std::array<const char*, 4> kNames = {"t", "h", "w", "e"};
    if (sections.size() > kNames.size()) {
      fail(concat("rope.dimension_sections must have at most 4 entries, got ", sections.size()));
    }
    const bool interleaved =
        architecture_ != nullptr && architecture_->sections == Sections::kInterleaved;
    if (architecture_ == nullptr || architecture_->sections == Sections::kNone) {
      note(rope.assumed,
           concat("chunked sections (architecture ", quote(name_), " is not known to have axes)"));
    }
    rope.axes.assign(kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(sections.size()));
    rope.recipe.axes =
        Mrope{.sections = std::move(sections),
              .order = interleaved ? MropeOrder::kInterleaved : MropeOrder::kChunked};
  }

  Scaling scaling(ModelRope& rope) const {
    const std::string type(file_.string(key("rope.scaling.type")).value_or("linear"));
    const auto original = integer("rope.scaling.original_context_length");
    if (original) rope.context.trained = *original;
    if (tensor("rope_factors_long") || tensor("rope_factors_short")) return longrope(rope);
    double factor = number("rope.scaling.factor").value_or(0.0);
    if (factor == 0.0) factor = number("rope.scale_linear").value_or(0.0);
    if (factor == 0.0 || type == "none") factor = 1.0;  // as in llama.cpp: zero means no scaling
    if (const auto alpha = number("rope.scaling.alpha"); alpha && *alpha != 0.0) {
      return NtkAlpha{.alpha = *alpha};
    }
    if (type == "yarn") return yarn(rope, factor);
    if (type != "linear" && type != "none" && type != "longrope") {
      fail(concat("unknown rope.scaling.type ", quote(type),
                  "; known are none, linear, yarn, longrope"));
    }
    if (auto divisors = tensor("rope_freqs")) {
      for (double& divisor : *divisors) divisor *= factor;
      return Divisors{.divisor = std::move(*divisors)};
    }
    if (factor == 1.0) return Plain{};
    return Linear{.factor = factor};
  }

  Scaling longrope(ModelRope& rope) const {
    auto longer = tensor("rope_factors_long");
    auto shorter = tensor("rope_factors_short");
    if (!longer || !shorter) fail("rope_factors_long and rope_factors_short must come together");
    if (rope.context.trained < 1) {
      fail("longrope needs rope.scaling.original_context_length or context_length");
    }
    // llama.cpp scales by attn_factor or 1, independent of the ratio of contexts.
    return LongRope{.short_factor = std::move(*shorter),
                    .long_factor = std::move(*longer),
                    .original_context = rope.context.trained,
                    .attention_factor = number("rope.scaling.attn_factor").value_or(1.0)};
  }

  Scaling yarn(ModelRope& rope, double factor) const {
    if (rope.context.trained < 1) {
      fail("yarn needs rope.scaling.original_context_length or context_length");
    }
    if (rope.context.extended <= rope.context.trained) {
      rope.context.extended = static_cast<std::int64_t>(
          std::llround(std::fmin(factor * static_cast<double>(rope.context.trained), 0x1p53)));
    }
    Yarn yarn{.factor = factor, .original_context = rope.context.trained};
    yarn.beta_fast = number("rope.scaling.yarn_beta_fast").value_or(yarn.beta_fast);
    yarn.beta_slow = number("rope.scaling.yarn_beta_slow").value_or(yarn.beta_slow);
    const bool deepseek = name_ == "deepseek2";
    if (const auto log = number("rope.scaling.yarn_log_multiplier"); log && *log != 0.0) {
      // DeepSeek's files have 0.1 * mscale_all_dim, and mscale is the same.
      yarn.mscale_all_dim = deepseek ? *log * 10.0 : *log;
      yarn.mscale = deepseek ? *yarn.mscale_all_dim : 1.0;
      if (deepseek) yarn.softmax_correction = SoftmaxCorrection::kMscaleAllDimSquared;
    }
    auto extra = number("rope.scaling.attn_factor");
    if (!extra) extra = number("rope.scaling.yarn_attn_factor");
    if (extra && *extra != 1.0) {
      const Recipe plain{.rotary_dim = 4, .theta = 10000.0, .scaling = yarn};
      yarn.attention_factor = rotary::make_frequencies(plain).scale * *extra;
    }
    if (tensor("rope_freqs")) {
      rope.warnings.emplace_back("the tensor rope_freqs is ignored beside yarn");
    }
    return yarn;
  }

  const GgufFile& file_;
  std::string name_;
  const Architecture* architecture_ = nullptr;
};

Model model_of(const GgufFile& file) {
  Model model = GgufReader(file).read();
  for (const ModelRope& rope : model.ropes) static_cast<void>(rope.make_rope());
  return model;
}

}  // namespace

Model read_gguf(const FileReader& file, const std::string& source) {
  // The length of the header is not known before it is read. Most take less than the first try, and
  // none so much as the last.
  constexpr std::uint64_t kFirst = std::uint64_t{8} << 20;
  constexpr std::uint64_t kLast = std::uint64_t{512} << 20;
  for (std::uint64_t size = kFirst;; size *= 4) {
    const bool is_whole = size >= file.size();
    const std::string bytes = file.read(0, static_cast<std::size_t>(is_whole ? file.size() : size));
    std::optional<GgufFile> header;
    try {
      header.emplace(bytes, source, file.size(),
                     [&file](std::uint64_t at, std::size_t count) { return file.read(at, count); });
    } catch (const IoError&) {
      if (is_whole || size >= kLast) throw;
      continue;  // perhaps only because the bytes end within the header
    }
    return model_of(*header);
  }
}

}  // namespace internal

Model Model::from_gguf(std::string_view bytes, const std::string& source) {
  return internal::model_of(internal::GgufFile(bytes, source));
}

}  // namespace rotary
