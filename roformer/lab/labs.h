// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What each lab gives to the list in labs.cc: see LabInfo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "roformer/lab/lab.h"

namespace rotary::roformer::lab {

std::unique_ptr<Lab> make_length_lab(const LabOptions& options);
void report_length(const Results& results, Report& report);
std::vector<std::string> missing_length_units(const Results& results);

std::unique_ptr<Lab> make_base_lab(const LabOptions& options);
void report_base(const Results& results, Report& report);
std::vector<std::string> missing_base_units(const Results& results);

std::unique_ptr<Lab> make_extend_lab(const LabOptions& options);
void report_extend(const Results& results, Report& report);

std::unique_ptr<Lab> make_tasks_lab(const LabOptions& options);
void report_tasks(const Results& results, Report& report);

std::unique_ptr<Lab> make_roformer_lab(const LabOptions& options);
void report_roformer(const Results& results, Report& report);

std::unique_ptr<Lab> make_learned_lab(const LabOptions& options);
void report_learned(const Results& results, Report& report);

std::unique_ptr<Lab> make_image_lab(const LabOptions& options);
void report_image(const Results& results, Report& report);

}  // namespace rotary::roformer::lab
