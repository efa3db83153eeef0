// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/roformer_settings.h"

#include "roformer/lab/text_data.h"
#include "roformer/lab/training.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

Json sizes_of(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t positions) {
  return {{"num_hidden_layers", layers},
          {"hidden_size", width},
          {"num_attention_heads", heads},
          {"intermediate_size", 4 * width},
          {"max_position_embeddings", positions}};
}

/// Positions of a masked LM, with and without a norm of queries and keys.
Json masked_variants(std::int64_t seeds) {
  Json all = Json::array();
  for (const char* norm : {"none", "layer"}) {
    for (const char* encoding : {"learned", "rope"}) {
      const bool plain = norm == std::string_view("none");
      all.push_back(Json{{"name", std::string(encoding) + (plain ? "" : "+qk_norm")},
                         {"position_encoding", encoding},
                         {"qk_norm", norm},
                         {"seeds", plain ? seeds : 1}});
    }
  }
  return all;
}

Json linear_variant(const char* name, const char* encoding, const char* kernel) {
  return {{"name", name},
          {"position_encoding", encoding},
          {"attention_type", "linear"},
          {"linear_kernel", kernel}};
}

/// Causal attention of linear cost. Performer is FAVOR+; without RoPE it has a learned table, as
/// lucidrains' performer-pytorch, which the paper used.
Json linear_variants(bool quick) {
  Json before = linear_variant("performer+rope before", "rope", "favor");
  before["favor_rotation"] = "before";
  Json all = Json::Array{linear_variant("performer", "learned", "favor"),
                         linear_variant("performer+rope", "rope", "favor"), before,
                         linear_variant("elu", "learned", "elu"),
                         linear_variant("elu+rope", "rope", "elu")};
  if (!quick) {
    all.push_back(linear_variant("relu+rope", "rope", "relu"));
    all.push_back(linear_variant("cosine+rope", "rope", "cosine"));
    all.push_back(linear_variant("rotated+rope", "rope", "rotated"));
  }
  all.push_back(Json{{"name", "softmax+rope"}, {"position_encoding", "rope"}});
  return all;
}

/// The settings of fine-tuning: of a generated task, and of GLUE's that need --data.
Json order_settings() {
  Json json = {{"variants", Json::Array{"learned", "rope"}}};
  json["tasks"] = Json::Array{"order"};
  json["max_examples"] = 512;
  json["epochs"] = 2;
  json["rows"] = 16;
  json["max_length"] = 64;
  json["learning_rate"] = 1e-3;
  return json;
}

Json glue_settings() {
  Json json = {{"variants", Json::Array{"learned", "rope"}}};
  json["tasks"] = Json::Array{"mrpc", "sst-2", "sts-b", "cola", "rte"};
  json["max_examples"] = 6000;
  json["epochs"] = 3;
  json["rows"] = 32;
  json["max_length"] = 128;
  json["learning_rate"] = 1e-4;
  return json;
}

}  // namespace

Json roformer_defaults(bool quick) {
  Json json = {{"corpus", default_corpus(quick)},
               {"rows", quick ? 16 : 32},
               {"length", quick ? 64 : 512},
               {"mask_rate", 0.15},
               {"training", quick ? training_defaults(150, 2e-3) : training_defaults(2500, 7e-4)},
               {"model", quick ? sizes_of(2, 64, 4, 128) : sizes_of(6, 512, 8, 512)},
               {"masked", masked_variants(quick ? 1 : 3)}};
  json["glue"] = quick ? order_settings() : glue_settings();
  Json characters = default_corpus(quick);
  characters["tokenizer"] = "byte";
  json["characters"] = std::move(characters);
  json["linear_rows"] = quick ? 8 : 16;
  json["linear_length"] = quick ? 64 : 1024;
  json["linear_training"] = quick ? training_defaults(60, 3e-3) : training_defaults(800, 7e-4);
  json["linear_model"] = quick ? sizes_of(2, 64, 4, 128) : sizes_of(6, 384, 6, 1024);
  json["linear"] = linear_variants(quick);
  return json;
}

}  // namespace rotary::roformer::lab
