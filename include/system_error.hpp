// SPDX-License-Identifier: Apache-2.0
// Refusals of the operating system as an Error, with one wording and one set of hints for all
// files.
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "error.hpp"

namespace halomesh {

/// The hint for an error number that says by itself what is wrong with a path; otherwise `hint`.
inline std::string path_hint(int error_number, const std::string& hint) {
  switch (error_number) {
    case ENAMETOOLONG:
      return "use a shorter path: a name has up to 255 bytes, a path up to 4095";
    case ELOOP:
      return "one of the path's symbolic links leads back to itself: mend it";
    case EROFS:
      return "use a path on a file system that may be written to";
    case ENOSPC:
      return "free some space there, or use another file system";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f), or use another file system";
    case EDQUOT:
      return "free some of your quota there, or use another file system";
    default:
      return hint;
  }
}

/// "cannot ACTION PATH: REASON" for an errno value. `hint` is used where path_hint() has no better.
inline Error system_error(const char* action, const std::filesystem::path& path, int error_number,
                          const std::string& hint) {
  return Error(fmt::format("cannot {} {}: {}", action, path.c_str(), std::strerror(error_number)),
               path_hint(error_number, hint));
}

/// The system did not open or read a file, which may itself be intact: code that looks for damaged
/// files must pass this error on.
class ReadError : public Error {
 public:
  using Error::Error;
};

/// "cannot ACTION PATH: REASON", for an errno value.
inline ReadError read_error(const char* action, const std::filesystem::path& path,
                            int error_number) {
  const bool lacks = error_number == ENOENT || error_number == EACCES || error_number == EPERM;
  const Error error = system_error(
      action, path, error_number,
      lacks ? "check that the file exists and may be read"
            : "the file may be whole: check its file system, then give the command again");
  return ReadError(error.what(), error.hint());
}

/// The exception as an Error; those of the standard library get a hint.
inline Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&exception))
    return system_error("use", error->path1(), error->code().value(),
                        "check that the path exists, may be written to and has space left");
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return Error("not enough memory",
                 "cut each sample into more parts, use a smaller batch or fewer ranks per node");
  return Error(exception.what());
}

}  // namespace halomesh
