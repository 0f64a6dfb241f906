// SPDX-License-Identifier: Apache-2.0
// Errors that a user can act on: they say what happened, where, with which value, and hint at the
// remedy. Also messages that are formatted only when needed. Must not depend on MPI: main() ends
// the ranks.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace halomesh {

/// A failure and its remedy. `what()` says what and where; `hint()` says how to fix it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string hint = {})
      : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

/// An invalid request of the user (exit code 2), found before any work is done.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A text that is formatted when it is converted to std::string. Refers to its arguments, which may
/// be temporaries: use it only within the expression that creates it.
template <class... Args>
class [[nodiscard]] Text {
 public:
  Text(fmt::string_view format, const Args&... args)
      : format_(format), args_(fmt::make_format_args(args...)) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  operator std::string() && { return fmt::vformat(format_, args_); }

 private:
  fmt::string_view format_;
  fmt::format_arg_store<fmt::format_context, Args...> args_;
};

/// A message for require(): `text("part {} of {}", 3, 4)`. The format is checked at compile time.
/// Where the text is always needed, call fmt::format().
template <class... Args>
Text<Args...> text(fmt::format_string<const Args&...> format, const Args&... args) {
  return {format, args...};
}

/// Throws Error(what, hint) unless `condition`. For mistakes of users and files: always on. Takes
/// anything that converts to std::string, and converts it only when throwing.
template <class What, class Hint = const char*>
void require(bool condition, What&& what, Hint&& hint = "") {
  if (!condition) throw Error(std::forward<What>(what), std::forward<Hint>(hint));
}

}  // namespace halomesh
