// SPDX-License-Identifier: Apache-2.0
// Full disks: a limit on the size of this process's files, and a small file system.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "test/harness/skip.hpp"

namespace halomesh {

/// While this object exists, writing or extending any file beyond `bytes` fails with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::int64_t bytes) : previous_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &previous_) == 0);
    const rlimit limit{static_cast<rlim_t>(bytes), previous_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    ::signal(SIGXFSZ, previous_handler_);
  }

 private:
  void (*previous_handler_)(int);
  rlimit previous_{};
};

/// A file system of `bytes` mounted on an existing directory until this object is destroyed. Unlike
/// under a FileSizeLimit, files can be extended here, but not filled, as on a real full disk.
class SmallFileSystem {
 public:
  SmallFileSystem(std::filesystem::path at, std::int64_t bytes) : at_(std::move(at)) {
    mounted_ =
        ::mount("tmpfs", at_.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
    if (!mounted_) test::skip_case("mounting a small file system is not permitted here");
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path at_;
  bool mounted_ = false;
};

}  // namespace halomesh
