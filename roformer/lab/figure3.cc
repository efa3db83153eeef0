// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/figure3.h"

#include <array>

namespace rotary::roformer::lab {
namespace {

constexpr std::array<PublishedPoint, 24> kRoformer = {
    {{247, 10.0170},   {499, 9.2570},    {999, 8.4604},    {1751, 7.0669},  {2250, 6.5464},
     {2749, 6.2517},   {4001, 5.6758},   {4999, 5.3128},   {7249, 4.7601},  {8500, 4.5176},
     {10997, 4.1317},  {14498, 3.6804},  {17999, 3.3067},  {22998, 2.9861}, {29496, 2.7731},
     {36751, 2.6261},  {46749, 2.4886},  {59497, 2.3761},  {75252, 2.2860}, {96247, 2.2103},
     {122747, 2.1470}, {155251, 2.1038}, {197253, 2.0638}, {250000, 2.0191}}};
constexpr std::array<PublishedPoint, 22> kBert = {
    {{247, 9.9925},    {499, 9.1998},   {1751, 7.1904},  {1997, 6.9983},   {2749, 6.7480},
     {3249, 6.6568},   {8001, 5.9714},  {8747, 5.8452},  {10750, 5.2579},  {13746, 4.3909},
     {17999, 3.7991},  {22998, 3.3938}, {29496, 3.0988}, {36498, 2.9175},  {47002, 2.7388},
     {59749, 2.5968},  {75751, 2.4817}, {96247, 2.3961}, {122747, 2.3227}, {154252, 2.2744},
     {197500, 2.2192}, {250000, 2.1620}}};
constexpr std::array<PublishedPoint, 21> kPerformerRope = {
    {{249, 3.1257},   {1000, 2.9473},  {1749, 2.7924},  {2500, 2.6626},  {3500, 2.5278},
     {4999, 2.3664},  {5499, 2.3189},  {6748, 2.2114},  {7999, 2.1199},  {9999, 1.9844},
     {12250, 1.8474}, {14749, 1.7120}, {18498, 1.5718}, {22748, 1.4844}, {28248, 1.4109},
     {35249, 1.3503}, {42249, 1.3075}, {51999, 1.2744}, {64000, 1.2429}, {78500, 1.2217},
     {96249, 1.2112}}};
constexpr std::array<PublishedPoint, 24> kPerformer = {
    {{249, 3.2741},   {749, 3.2399},   {1000, 3.2254},  {1249, 3.2069},  {1749, 3.1761},
     {2000, 3.1558},  {3000, 3.0862},  {3500, 3.0521},  {4000, 3.0182},  {5499, 2.8896},
     {6499, 2.7459},  {7999, 2.4538},  {9999, 2.2176},  {12250, 2.0486}, {15249, 1.8776},
     {18498, 1.7536}, {23248, 1.6340}, {28248, 1.5546}, {34249, 1.4901}, {42500, 1.4309},
     {51999, 1.3887}, {63748, 1.3519}, {78500, 1.3255}, {96249, 1.3063}}};

constexpr std::array<PublishedCurve, 2> kMaskedCurves = {{
    {"RoFormer (published)", kRoformer},
    {"BERT (published)", kBert},
}};
constexpr std::array<PublishedCurve, 2> kPerformerCurves = {{
    {"Performer with RoPE (published)", kPerformerRope},
    {"Performer (published)", kPerformer},
}};

}  // namespace

std::span<const PublishedCurve> published_masked_curves() noexcept { return kMaskedCurves; }
std::span<const PublishedCurve> published_performer_curves() noexcept { return kPerformerCurves; }

}  // namespace rotary::roformer::lab
