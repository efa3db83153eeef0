// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The list of labs.
#include "roformer/lab/labs.h"

#include <fnmatch.h>

#include <algorithm>

#include "roformer/lab/lab.h"
#include "support/message.h"
#include "support/nearest.h"

namespace rotary::roformer::lab {

const std::vector<LabInfo>& labs() {
  static const std::vector<LabInfo> kLabs = {
      {.name = "length",
       .about = "Train short, test long: every encoding by context length, and its cost",
       .make = make_length_lab,
       .report = report_length,
       .missing = missing_length_units},
      {.name = "base",
       .about = "Bases and partial rotations: quality, retrieval, and what is exact",
       .make = make_base_lab,
       .report = report_base,
       .missing = missing_base_units},
      {.name = "extend",
       .about = "One model with its context stretched by every recipe, before and after tuning",
       .make = make_extend_lab,
       .report = report_extend},
      {.name = "tasks",
       .about = "Generated problems, trained short and judged long; RoPER's three tasks",
       .make = make_tasks_lab,
       .report = report_tasks},
      {.name = "roformer",
       .about = "The RoFormer paper on a small scale: masked LM, linear attention, GLUE",
       .make = make_roformer_lab,
       .report = report_roformer},
      {.name = "learned",
       .about = "Learned frequencies against fixed ones: quality, and how far they move",
       .make = make_learned_lab,
       .report = report_learned},
      {.name = "image",
       .about = "Vision Transformers: encodings of patches by the size of the images",
       .make = make_image_lab,
       .report = report_image},
  };
  return kLabs;
}

const LabInfo& find_lab(std::string_view name) {
  std::vector<std::string_view> names;
  for (const LabInfo& info : labs()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  const std::string_view near = internal::nearest(name, names);
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  internal::reject("[lab] no lab ", name,
                   near.empty() ? ": there are " + known
                                : internal::concat("; perhaps ", near, "? There are ", known));
}

std::vector<Unit> units_of(const std::vector<internal::Json>& entries, std::int64_t seeds) {
  std::vector<Unit> units;
  for (const internal::Json& entry : entries) {
    const internal::Json* own = entry.find("seeds");
    const std::int64_t count = seeds > 0 ? seeds : own != nullptr ? own->as_int64() : 1;
    for (std::int64_t seed = 0; seed < count; ++seed) {
      units.push_back({.variant = entry.at("name").as_string(), .seed = seed});
    }
  }
  return units;
}

bool is_wanted(const Unit& unit, const LabOptions& options) {
  return options.variants.empty() ||
         std::ranges::any_of(options.variants, [&](const std::string& variant) {
           return unit.variant == variant ||
                  ::fnmatch(variant.c_str(), unit.variant.c_str(), 0) == 0;
         });
}

const internal::Json& entry_of(const std::vector<internal::Json>& entries, std::string_view name) {
  for (const internal::Json& entry : entries) {
    if (entry.at("name").as_string() == name) return entry;
  }
  internal::reject("[lab] no entry ", name);
}

}  // namespace rotary::roformer::lab
