// Errors that a user can act on: what happened, where, the value, and the cure.
// Knows nothing of MPI; the program's main() decides how an error ends all ranks.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace halomesh {

/// A failure with its cure. `what()` says what and where; `hint()` says how to mend it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::string hint = {})
      : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

/// A wrong request of the user (exit code 2), found before any work is done.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Joins its arguments into one message: `cat("part ", 3, " of ", 4)`.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// Throws Error(what, hint) unless `condition`. For mistakes of users and files: always on.
inline void require(bool condition, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(what, hint);
}

}  // namespace halomesh
