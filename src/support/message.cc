// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "support/message.h"

#include <sstream>

namespace rotary::internal {

std::string concat_parts(std::initializer_list<MessagePart> parts) {
  std::ostringstream out;
  out.precision(12);
  for (const MessagePart& part : parts) {
    switch (part.kind_) {
      case MessagePart::Kind::kText:
        out << part.text_;
        break;
      case MessagePart::Kind::kAddress:
        out << part.address_;
        break;
      case MessagePart::Kind::kCharacter:
        out << part.character_;
        break;
      case MessagePart::Kind::kDouble:
        out << part.double_;
        break;
      case MessagePart::Kind::kSigned:
        out << part.signed_;
        break;
      case MessagePart::Kind::kUnsigned:
        out << part.unsigned_;
        break;
    }
  }
  return out.str();
}

void reject_parts(std::initializer_list<MessagePart> parts) {
  throw std::invalid_argument(concat_parts(parts));
}

}  // namespace rotary::internal
