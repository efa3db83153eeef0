// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Attention of C++ and of Python are one: runs what Python wrote down, then hands its own back.
//   attention FROM_PYTHON TO_PYTHON

#include <rotary/transformer/attention.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/utils.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using Tensors = std::map<std::string, at::Tensor>;

Tensors read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  Tensors all;
  for (const auto& item : torch::jit::pickle_load(bytes).toGenericDict()) {
    all.emplace(item.key().toStringRef(), item.value().toTensor());
  }
  return all;
}

void write(const char* path, const Tensors& all) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, tensor] : all) dict.insert(name, tensor);
  const std::vector<char> bytes = torch::jit::pickle_save(dict);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void load(torch::nn::Module& module, const Tensors& from) {
  const torch::NoGradGuard guard;
  for (auto& parameter : module.named_parameters()) {
    parameter.value().copy_(from.at("state." + parameter.key()));
  }
}

std::string rope() {
  return rotary::torch::to_text(
      rotary::Rope(rotary::make_frequencies({.rotary_dim = 16, .theta = 100.0}),
                   {.head_dim = 16, .pairing = rotary::Pairing::kHalf}));
}

rotary::transformer::Attention make(const std::string& encoding) {
  rotary::transformer::Attention attention(
      {.model_dim = 64,
       .heads = 4,
       .kv_heads = 2,
       .causal = true,
       .window = 5,
       .encoding = rotary::transformer::make_encoding({.name = encoding,
                                                       .heads = 4,
                                                       .buckets = 8,
                                                       .max_distance = 6,
                                                       .rope = rope(),
                                                       .learn = rotary::torch::Learn::kLogGain})});
  attention->to(at::kDouble);
  attention->eval();
  return attention;
}

bool close(const char* what, const at::Tensor& a, const at::Tensor& b) {
  const bool equal = at::allclose(a, b, 1e-9, 1e-9);
  std::printf("%s %d\n", what, equal);
  return equal;
}

bool decodes(rotary::transformer::Attention& attention, const at::Tensor& x, const at::Tensor& y) {
  const torch::NoGradGuard guard;
  rotary::transformer::KeyValueCache cache(4);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : x.split({5, 1, 3}, 1)) {
    parts.push_back(attention->forward(part, {.cache = &cache}));
  }
  return close("decoding", at::cat(parts, 1), y);
}

bool refuses_three_dimensions(const at::Tensor& x) {
  try {
    rotary::transformer::attend(x, x, x);
  } catch (const c10::ValueError&) {
    return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  torch::manual_seed(1);
  const Tensors python = read(arguments[1]);
  rotary::transformer::Attention attention = make("rope+t5+kerple_power");
  load(*attention, python);
  const at::Tensor& x = python.at("x");
  bool good = close("forward", attention->forward(x), python.at("y"));
  good = close("padding", attention->forward(x, {.padding = python.at("padding")}),
               python.at("padded")) &&
         good;
  good = close("memory",
               attention->forward(x.slice(1, 0, 3), {.memory = x, .positions = python.at("at")}),
               python.at("crossed")) &&
         good;
  good = decodes(attention, x, python.at("y")) && good;
  good = refuses_three_dimensions(x) && !attention->backend().empty() && good;

  rotary::transformer::Attention fresh = make("rope+distance+alibi");
  Tensors ours = {{"x", x}, {"y", fresh->forward(x).detach()}};
  for (const auto& parameter : fresh->named_parameters()) {
    ours.emplace("state." + parameter.key(), parameter.value().detach());
  }
  write(arguments[2], ours);
  return good ? 0 : 1;
}
