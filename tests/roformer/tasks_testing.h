// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the tests of roformer/tasks: models and documents of bytes.
#pragma once

#include <memory>
#include <string_view>

#include "roformer/data/token_document.h"
#include "roformer/model_testing.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer::tasks_test {

/// The byte tokeniser.
inline std::shared_ptr<const Tokenizer> bytes() {
  static const std::shared_ptr<const Tokenizer> kOnce =
      load_tokenizer({.kind = TokenizerKind::kByte});
  return kOnce;
}

/// A small model that reads bytes.
inline Config of_bytes(Task task) { return small(task, bytes()->vocabulary().size()); }

inline TokenDocument document(std::string_view text) {
  TokenDocument out;
  to_document(bytes()->tokenize(text), out);
  return out;
}

}  // namespace rotary::roformer::tasks_test
