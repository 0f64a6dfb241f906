// A disk that is full for this process: no file can grow beyond some size while the object lives.
// Knows nothing of what the files hold.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>

namespace halomesh {

/// Writing beyond `bytes` fails with EFBIG, as it does with ENOSPC on a full disk.
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

}  // namespace halomesh
