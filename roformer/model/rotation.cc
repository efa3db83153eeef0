// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/rotation.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <utility>

#include "rotary/torch.h"
#include "rotary/torch_rope.h"

namespace rotary::roformer {
namespace {

std::string text_of(const ModelRope& rope, std::int64_t context) {
  return torch::to_text({.frequencies = rope.make_frequencies(context), .layout = rope.layout});
}

/// First token and number of tokens of a row or of a packed sequence, and its length without
/// padding: the context of its rope.
struct TextRange {
  std::int64_t first = 0;
  std::int64_t tokens = 0;
  std::int64_t length = 0;
};

std::vector<std::int64_t> to_list(const at::Tensor& x) {
  const at::Tensor y = x.to(at::kCPU, at::kLong).contiguous();
  const auto* data = y.const_data_ptr<std::int64_t>();
  return {data, data + y.numel()};
}

std::vector<TextRange> texts_of(const Inputs& in) {
  std::vector<TextRange> texts;
  if (in.cu_seqlens) {
    const std::vector<std::int64_t> offsets = to_list(*in.cu_seqlens);
    TORCH_CHECK_VALUE(!offsets.empty() && offsets.front() == 0 &&
                          offsets.back() == in.ids.numel() && std::ranges::is_sorted(offsets),
                      "[RoFormer] cu_seqlens must ascend from 0 to ", in.ids.numel());
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::int64_t tokens = offsets[i + 1] - offsets[i];
      texts.push_back({.first = offsets[i], .tokens = tokens, .length = tokens});
    }
    return texts;
  }
  const std::int64_t tokens = in.ids.size(1);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(in.ids.size(0)), tokens);
  if (in.mask && tokens > 0) {
    // The last token that is not padding.
    const at::Tensor places = at::arange(1, tokens + 1, in.mask->options().dtype(at::kLong));
    lengths = to_list(in.mask->ne(0).to(at::kLong).mul(places).amax(1));
  }
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    texts.push_back({.first = static_cast<std::int64_t>(row) * tokens,
                     .tokens = tokens,
                     .length = lengths[row]});
  }
  return texts;
}

at::Tensor to_device(const std::vector<std::int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

/// Tokens and positions of the texts with these indices.
RopeGroup group_of(std::string rope, const std::vector<TextRange>& texts,
                   const std::vector<std::size_t>& members, at::Device device,
                   std::vector<std::int64_t>& order, std::int64_t& count) {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> positions;
  for (const std::size_t member : members) {
    for (std::int64_t t = 0; t < texts[member].tokens; ++t) {
      tokens.push_back(texts[member].first + t);
      positions.push_back(t);
      order[static_cast<std::size_t>(tokens.back())] = count++;
    }
  }
  return {.rope = std::move(rope),
          .tokens = to_device(tokens, device),
          .positions = to_device(positions, device)};
}

PassRope rope_of_pass(const ModelRope& rope, const std::vector<TextRange>& texts,
                      const at::Tensor& ids) {
  std::map<std::int64_t, std::string> text_of_length;
  std::map<std::string, std::vector<std::size_t>> members;  // texts by their rope
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string& text = text_of_length[texts[i].length];
    if (text.empty()) text = text_of(rope, texts[i].length);
    members[text].push_back(i);
  }
  PassRope result{.follows_length = true};
  if (members.size() <= 1) {
    result.text = members.empty() ? text_of(rope, 0) : members.begin()->first;
    return result;
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(ids.numel()));
  std::int64_t count = 0;
  for (const auto& [text, indices] : members) {
    result.groups.push_back(group_of(text, texts, indices, ids.device(), order, count));
  }
  result.order = to_device(order, ids.device());
  return result;
}

}  // namespace

Rotation::Rotation(const Config& config)
    : layers_(layer_ropes(config)),
      follows_length_(layers_.depend_on_context() && config.rope_context == 0) {
  auto ropes = std::make_shared<std::vector<PassRope>>();
  for (const ModelRope& rope : layers_.ropes) {
    ropes->push_back({.text = text_of(rope, config.rope_context),
                      .grows = std::holds_alternative<Xpos>(rope.recipe.scaling)});
  }
  fixed_ = std::move(ropes);
}

PassRopes Rotation::of_pass(const Inputs& in) const {
  if (!follows_length_) return fixed_;
  TORCH_CHECK_VALUE(in.cache == nullptr,
                    "[RoFormer] a cache needs rope_context where the rope depends on the length of "
                    "the text: cached keys keep their rotation");
  const std::vector<TextRange> texts = texts_of(in);
  auto ropes = std::make_shared<std::vector<PassRope>>(*fixed_);
  for (std::size_t i = 0; i < ropes->size(); ++i) {
    const ModelRope& rope = layers_.ropes[i];
    if (depends_on_context(rope.recipe)) (*ropes)[i] = rope_of_pass(rope, texts, in.ids);
  }
  return ropes;
}

std::vector<at::Tensor> rotate_by_length(const at::Tensor& queries,
                                         const std::vector<at::Tensor>& keys, const PassRope& rope,
                                         const torch::TokenPositions& positions,
                                         const torch::TokenPositions* key_positions) {
  std::vector<at::Tensor> tensors = {queries};
  if (key_positions != nullptr) {
    tensors = torch::rotate(tensors, rope.text, positions);
    for (at::Tensor& x : torch::rotate(keys, rope.text, *key_positions)) {
      tensors.push_back(std::move(x));
    }
    return tensors;
  }
  tensors.insert(tensors.end(), keys.begin(), keys.end());
  if (rope.groups.empty()) return torch::rotate(tensors, rope.text, positions);
  std::vector<std::vector<at::Tensor>> parts(tensors.size());
  for (const RopeGroup& group : rope.groups) {
    std::vector<at::Tensor> own;
    for (const at::Tensor& x : tensors) {
      own.push_back(x.flatten(0, 1).index_select(0, group.tokens).unsqueeze(0));
    }
    const auto rotated = torch::rotate(own, group.rope, {.positions = group.positions});
    for (std::size_t i = 0; i < rotated.size(); ++i) parts[i].push_back(rotated[i].squeeze(0));
  }
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    results.push_back(
        at::cat(parts[i]).index_select(0, rope.order).unflatten(0, tensors[i].sizes().slice(0, 2)));
  }
  return results;
}

std::string rope_text(const Config& config, std::int64_t layer) {
  const LayerRopes ropes = layer_ropes(config);
  if (ropes.ropes.empty()) return {};
  const std::optional<std::size_t> index = ropes.of_layer.at(static_cast<std::size_t>(layer));
  return index ? text_of(ropes.ropes[*index], config.rope_context) : std::string();
}

}  // namespace rotary::roformer
