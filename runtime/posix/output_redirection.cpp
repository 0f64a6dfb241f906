// SPDX-License-Identifier: Apache-2.0
// Redirection of output to a file: see output_redirection.hpp.
#include "runtime/posix/output_redirection.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "system_error.hpp"

namespace halomesh {
namespace {

void flush() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
}

Descriptor copy_of(int descriptor) {
  return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace

OutputRedirection::OutputRedirection(const std::filesystem::path& file)
    : output_(copy_of(STDOUT_FILENO)), error_(copy_of(STDERR_FILENO)) {
  const Descriptor opened(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  if (opened.get() < 0)
    throw system_error("write", file, errno, "give an --out directory that you may write to");
  flush();
  ::dup2(opened.get(), STDOUT_FILENO);
  ::dup2(opened.get(), STDERR_FILENO);
}

OutputRedirection::~OutputRedirection() {
  flush();
  if (output_.get() >= 0) ::dup2(output_.get(), STDOUT_FILENO);
  if (error_.get() >= 0) ::dup2(error_.get(), STDERR_FILENO);
}

}  // namespace halomesh
