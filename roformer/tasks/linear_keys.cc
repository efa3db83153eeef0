// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/linear_keys.h"

#include <string>
#include <utility>

#include "json/json.h"
#include "support/message.h"

namespace rotary::roformer {

Config with_linear_keys(const RunConfig& run, const Config& config) {
  const std::string own = "model";
  if (run.linear_kernel == own && run.favor_rotation == own && run.linear_decay == own) {
    return config;
  }
  internal::Json json = internal::parse_json(to_json(config), "model");
  if (run.linear_kernel != own) {
    json["attention_type"] = "linear";
    json["linear_kernel"] = run.linear_kernel;
  }
  if (run.favor_rotation != own) json["favor_rotation"] = run.favor_rotation;
  if (run.linear_decay != own) {
    const internal::Json number = internal::try_parse_json(run.linear_decay);
    json["linear_decay"] = run.linear_decay == "on"    ? internal::Json(true)
                           : run.linear_decay == "off" ? internal::Json(false)
                           : number.is_number()        ? number
                                                       : internal::Json(run.linear_decay);
  }
  return config_from_json(std::move(json), "model");
}

void check_linear_keys_of_init(const RunConfig& run) {
  for (const auto& [name, value] : {std::pair("linear_kernel", run.linear_kernel),
                                    std::pair("favor_rotation", run.favor_rotation),
                                    std::pair("linear_decay", run.linear_decay)}) {
    if (value == "model") continue;
    internal::reject(name, " must be model with init, whose config is the model's, got ", value);
  }
}

}  // namespace rotary::roformer
