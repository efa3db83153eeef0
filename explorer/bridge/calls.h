// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The calls of the explorer page that answer in JSON.
#pragma once

#include "explorer/bridge/open_ropes.h"
#include "json/json.h"

namespace rotary::explorer {

/// Answers {"call": name, ...}:
///   model      {model}                  model_type, the names of the ropes and the default one
///   rope       as OpenRopes::make()     its number, what `rotary inspect` prints, wavelengths
///   curves     {rope, distances}        what `rotary decay` prints at these distances
///   bounds     {rope, context}          what `rotary bounds` prints, without the smallest base
///   base       {rope, context}          the smallest base that serves the context
///   precision  {rope, positions}        what `rotary precision` prints at these positions
///   compare    {a, b}                   what `rotary diff` prints of two ropes
///   plan       {model, rope, context}   what `rotary plan` prints
///   dialects   {}                       names and sources of all dialects
/// Throws what the library throws, and std::invalid_argument for another name.
internal::Json call(OpenRopes& ropes, const internal::Json& request);

}  // namespace rotary::explorer
