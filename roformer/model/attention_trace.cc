// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/attention_trace.h"

namespace rotary::roformer {
namespace {

thread_local AttentionTrace* current_trace = nullptr;

}  // namespace

AttentionTrace::AttentionTrace() noexcept { current_trace = this; }

AttentionTrace::~AttentionTrace() { current_trace = nullptr; }

AttentionTrace* AttentionTrace::current() noexcept { return current_trace; }

}  // namespace rotary::roformer
