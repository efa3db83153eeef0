// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "console/output.h"

#include <fcntl.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace rotary::console {
namespace {

constexpr std::size_t kMinColumns = 60;
constexpr std::size_t kMaxColumns = 100;  // longer lines are hard to read

std::size_t find_columns(bool is_terminal) {
  long columns = 0;
  winsize size{};
  if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns <= 0) {
    const char* text = std::getenv("COLUMNS");
    columns = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  }
  if (columns <= 0) columns = 80;
  return std::clamp(static_cast<std::size_t>(columns), kMinColumns, kMaxColumns);
}

}  // namespace

explain::Terminal detect_terminal() {
  explain::Terminal terminal;
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

void print_out(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw std::runtime_error("cannot write the output: " + std::generic_category().message(errno));
  }
}

void print_error(std::string_view text) noexcept {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  std::fflush(stderr);
}

void open_standard_streams() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // Opens as the lowest free number, which is this one.
    static_cast<void>(::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace rotary::console
