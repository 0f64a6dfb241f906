// SPDX-License-Identifier: Apache-2.0
// Files without a name, reopened by process and descriptor.
#include "runtime/posix/process_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string>

#include "runtime/stage/stage_directory.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

TEST_CASE("process_file: a nameless file is reopened, and only that file") {
  const TempDirectory temp;
  const StageDirectory directory(temp.path());
  const Descriptor file = directory.nameless_file(), other = directory.nameless_file();
  REQUIRE(::pwrite(file.get(), "here", 4, 0) == 4);

  std::stringstream text;
  text << ProcessFile::of(file);
  ProcessFile told;
  text >> told;
  const Descriptor again = told.open();
  std::array<char, 5> read{};
  REQUIRE(::pread(again.get(), read.data(), 4, 0) == 4);
  CHECK(std::string(read.data()) == "here");
  CHECK(temp.entries() == 0);

  CHECK(ProcessFile().open().get() < 0);
  // The same number elsewhere: another file, as a process of another name space would have.
  ProcessFile elsewhere = told;
  elsewhere.descriptor = other.get();
  CHECK(elsewhere.open().get() < 0);
  elsewhere = told;
  elsewhere.process = 0;  // no such process
  CHECK(elsewhere.open().get() < 0);
}

}  // namespace
}  // namespace halomesh
