// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/terminal.h"

#include <fmt/core.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace rotary::cli {
namespace {

constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kWidest = 100;  // longer lines are hard to read

std::size_t find_columns(bool is_terminal) {
  long columns = 0;
  winsize size{};
  if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns <= 0) {
    const char* text = std::getenv("COLUMNS");
    columns = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  }
  if (columns <= 0) columns = 80;
  return std::clamp(static_cast<std::size_t>(columns), kNarrowest, kWidest);
}

const char* code_of(Style style) {
  switch (style) {
    case Style::kTitle:
      return "1";  // bold
    case Style::kFaint:
      return "2";
    case Style::kValue:
      return "36";  // cyan
    case Style::kWarning:
      return "33";  // yellow
  }
  return "0";
}

/// Bytes of the character that the text begins with; 0 for control characters and for bytes that
/// are not UTF-8.
std::size_t printable_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t length = first >= 0xf5 || first < 0xc2 ? 0
                             : first >= 0xf0               ? 4
                             : first >= 0xe0               ? 3
                                                           : 2;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return first == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

}  // namespace

Terminal detect_terminal() {
  Terminal terminal;
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  terminal.columns = find_columns(is_terminal);
  const char* no_colour = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool wanted = no_colour == nullptr || *no_colour == '\0';
  const bool able = kind != nullptr && std::string_view(kind) != "dumb";
  terminal.colour = is_terminal && wanted && able;
  std::setlocale(LC_CTYPE, "");
  terminal.unicode = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  return terminal;
}

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(style), text);
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = printable_length(text);
    if (length > 0) {
      result += text.substr(0, length);
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string pad(std::string_view text, std::size_t width) {
  const std::size_t used = width_of(text);
  return std::string(text) + std::string(width > used ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = width_of(text);
  return std::string(width > used ? width - used : 0, ' ') + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (lines.empty() || width_of(lines.back()) + 1 + width_of(word) > width) {
      lines.emplace_back(word);
    } else {
      lines.back().append(" ").append(word);
    }
  }
  return lines;
}

void print_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write the output: " + std::generic_category().message(errno));
  }
}

}  // namespace rotary::cli
