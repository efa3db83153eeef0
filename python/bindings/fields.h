// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Names of the library's structs in Python, field by field, and the words of their enumerations. A
// field added to a struct is added here and to its dataclass, nowhere else.
#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "rotary/model.h"
#include "rotary/pairing.h"
#include "rotary/recipe.h"
#include "rotary/rope.h"

namespace rotary::python {

// ---- Enumerations -------------------------------------------------------------------------------

template <typename Enum, std::size_t n>
using Words = std::array<std::pair<std::string_view, Enum>, n>;

template <typename Enum>
inline constexpr int words_of = 0;

template <>
inline constexpr Words<Pairing, 2> words_of<Pairing>{
    {{"interleaved", Pairing::kInterleaved}, {"half", Pairing::kHalf}}};
template <>
inline constexpr Words<Precision, 2> words_of<Precision>{
    {{"exact", Precision::kExact}, {"reference", Precision::kReference}}};
template <>
inline constexpr Words<CachePolicy, 3> words_of<CachePolicy>{
    {{"none", CachePolicy::kNone}, {"all", CachePolicy::kAll}, {"hybrid", CachePolicy::kHybrid}}};
template <>
inline constexpr Words<Wavelengths, 2> words_of<Wavelengths>{
    {{"exact", Wavelengths::kExact}, {"whole", Wavelengths::kWhole}}};
template <>
inline constexpr Words<RotationDirection, 2> words_of<RotationDirection>{
    {{"forward", RotationDirection::kForward}, {"backward", RotationDirection::kBackward}}};
template <>
inline constexpr Words<SoftmaxCorrection, 2> words_of<SoftmaxCorrection>{
    {{"none", SoftmaxCorrection::kNone},
     {"mscale_all_dim_squared", SoftmaxCorrection::kMscaleAllDimSquared}}};
template <>
inline constexpr Words<WalkthroughRamp, 2> words_of<WalkthroughRamp>{
    {{"code", WalkthroughRamp::kCode}, {"prose", WalkthroughRamp::kProse}}};
template <>
inline constexpr Words<AxialOrder, 2> words_of<AxialOrder>{
    {{"blocks", AxialOrder::kBlocks}, {"alternating", AxialOrder::kAlternating}}};
template <>
inline constexpr Words<AxialLadder, 2> words_of<AxialLadder>{
    {{"own", AxialLadder::kOwn}, {"strided", AxialLadder::kStrided}}};
template <>
inline constexpr Words<MropeOrder, 5> words_of<MropeOrder>{
    {{"chunked", MropeOrder::kChunked},
     {"interleaved", MropeOrder::kInterleaved},
     {"round_robin", MropeOrder::kRoundRobin},
     {"spatial_first", MropeOrder::kSpatialFirst},
     {"spatial_blocks", MropeOrder::kSpatialBlocks}}};

// ---- Structs ------------------------------------------------------------------------------------

/// A dataclass: module, name, and fields as pairs (name, pointer to member).
template <typename List>
struct Dataclass {
  const char* module;
  const char* name;
  List list;
};

template <typename... Field>
constexpr auto dataclass(const char* module, const char* name, Field... field) {
  return Dataclass<std::tuple<Field...>>{module, name, {field...}};
}

template <typename T, typename Member>
constexpr std::pair<const char*, Member T::*> field(const char* name, Member T::*member) {
  return {name, member};
}

template <typename T>
inline constexpr int dataclass_of = 0;

template <typename T>
concept HasDataclass = !std::is_same_v<decltype(dataclass_of<T>), const int>;

inline constexpr const char* kRecipes = "rotary.recipe";

template <>
inline constexpr auto dataclass_of<Plain> = dataclass(kRecipes, "Plain");
template <>
inline constexpr auto dataclass_of<Linear> =
    dataclass(kRecipes, "Linear", field("factor", &Linear::factor));
template <>
inline constexpr auto dataclass_of<Ntk> =
    dataclass(kRecipes, "Ntk", field("factor", &Ntk::factor), field("mixed_b", &Ntk::mixed_b));
template <>
inline constexpr auto dataclass_of<NtkAlpha> =
    dataclass(kRecipes, "NtkAlpha", field("alpha", &NtkAlpha::alpha));
template <>
inline constexpr auto dataclass_of<DynamicNtk> = dataclass(
    kRecipes, "DynamicNtk", field("factor", &DynamicNtk::factor),
    field("original_context", &DynamicNtk::original_context), field("alpha", &DynamicNtk::alpha));
template <>
inline constexpr auto dataclass_of<Yarn> = dataclass(
    kRecipes, "Yarn", field("factor", &Yarn::factor),
    field("original_context", &Yarn::original_context), field("beta_fast", &Yarn::beta_fast),
    field("beta_slow", &Yarn::beta_slow), field("truncate", &Yarn::truncate),
    field("attention_factor", &Yarn::attention_factor), field("mscale", &Yarn::mscale),
    field("mscale_all_dim", &Yarn::mscale_all_dim),
    field("softmax_correction", &Yarn::softmax_correction));
template <>
inline constexpr auto dataclass_of<YarnPaper> =
    dataclass(kRecipes, "YarnPaper", field("factor", &YarnPaper::factor),
              field("original_context", &YarnPaper::original_context),
              field("alpha", &YarnPaper::alpha), field("beta", &YarnPaper::beta));
template <>
inline constexpr auto dataclass_of<YarnWalkthrough> = dataclass(
    kRecipes, "YarnWalkthrough", field("factor", &YarnWalkthrough::factor),
    field("original_context", &YarnWalkthrough::original_context),
    field("beta_fast", &YarnWalkthrough::beta_fast),
    field("beta_slow", &YarnWalkthrough::beta_slow), field("ramp", &YarnWalkthrough::ramp));
template <>
inline constexpr auto dataclass_of<LongRope> = dataclass(
    kRecipes, "LongRope", field("short_factor", &LongRope::short_factor),
    field("long_factor", &LongRope::long_factor),
    field("original_context", &LongRope::original_context), field("factor", &LongRope::factor),
    field("attention_factor", &LongRope::attention_factor),
    field("short_mscale", &LongRope::short_mscale), field("long_mscale", &LongRope::long_mscale));
template <>
inline constexpr auto dataclass_of<Llama3> =
    dataclass(kRecipes, "Llama3", field("factor", &Llama3::factor),
              field("original_context", &Llama3::original_context),
              field("low_freq_factor", &Llama3::low_freq_factor),
              field("high_freq_factor", &Llama3::high_freq_factor));
template <>
inline constexpr auto dataclass_of<Proportional> =
    dataclass(kRecipes, "Proportional", field("fraction", &Proportional::fraction),
              field("factor", &Proportional::factor));
template <>
inline constexpr auto dataclass_of<Divisors> =
    dataclass(kRecipes, "Divisors", field("divisor", &Divisors::divisor));
template <>
inline constexpr auto dataclass_of<Learnable> =
    dataclass(kRecipes, "Learnable", field("log_gain", &Learnable::log_gain));
template <>
inline constexpr auto dataclass_of<ReceptiveField> =
    dataclass(kRecipes, "ReceptiveField", field("alpha", &ReceptiveField::alpha),
              field("rho", &ReceptiveField::rho));
template <>
inline constexpr auto dataclass_of<Xpos> =
    dataclass(kRecipes, "Xpos", field("scale_base", &Xpos::scale_base),
              field("gamma", &Xpos::gamma), field("origin", &Xpos::origin));

template <>
inline constexpr auto dataclass_of<OneAxis> = dataclass(kRecipes, "OneAxis");
template <>
inline constexpr auto dataclass_of<Axial> =
    dataclass(kRecipes, "Axial", field("axes", &Axial::axes), field("dims", &Axial::dims),
              field("order", &Axial::order), field("ladder", &Axial::ladder),
              field("axis_order", &Axial::axis_order));
template <>
inline constexpr auto dataclass_of<Mrope> = dataclass(
    kRecipes, "Mrope", field("sections", &Mrope::sections), field("order", &Mrope::order));
template <>
inline constexpr auto dataclass_of<Mixed> = dataclass(
    kRecipes, "Mixed", field("axes", &Mixed::axes), field("frequencies", &Mixed::frequencies));

template <>
inline constexpr auto dataclass_of<Recipe> = dataclass(
    kRecipes, "Recipe", field("rotary_dim", &Recipe::rotary_dim), field("theta", &Recipe::theta),
    field("ladder_dim", &Recipe::ladder_dim), field("scaling", &Recipe::scaling),
    field("axes", &Recipe::axes), field("direction", &Recipe::direction),
    field("gain", &Recipe::gain), field("wavelengths", &Recipe::wavelengths));

template <>
inline constexpr auto dataclass_of<HeadLayout> = dataclass(
    "rotary.layout", "HeadLayout", field("head_dim", &HeadLayout::head_dim),
    field("rotary_offset", &HeadLayout::rotary_offset), field("pairing", &HeadLayout::pairing),
    field("output_pairing", &HeadLayout::output_pairing));
template <>
inline constexpr auto dataclass_of<Cache> =
    dataclass("rotary.layout", "Cache", field("policy", &Cache::policy),
              field("positions", &Cache::positions));

template <>
inline constexpr auto dataclass_of<ContextLength> =
    dataclass("rotary.model", "ContextLength", field("trained", &ContextLength::trained),
              field("extended", &ContextLength::extended));
template <>
inline constexpr auto dataclass_of<ModelRope> =
    dataclass("rotary.model", "ModelRope", field("name", &ModelRope::name),
              field("recipe", &ModelRope::recipe), field("layout", &ModelRope::layout),
              field("axes", &ModelRope::axes), field("context", &ModelRope::context),
              field("layers", &ModelRope::layers), field("assumed", &ModelRope::assumed),
              field("warnings", &ModelRope::warnings));
template <>
inline constexpr auto dataclass_of<Model> =
    dataclass("rotary.model", "Model", field("model_type", &Model::model_type),
              field("ropes", &Model::ropes));

}  // namespace rotary::python
