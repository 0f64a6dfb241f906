// SPDX-License-Identifier: Apache-2.0
// Captures the output of a command, for tests that call it in their own process.
#pragma once

#include <iostream>
#include <sstream>

namespace halomesh {

/// Replaces std::cout and std::cerr during its lifetime; an exception restores them as well.
class CapturedOutput {
 public:
  CapturedOutput() : out_(std::cout.rdbuf(out.rdbuf())), err_(std::cerr.rdbuf(err.rdbuf())) {}
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
  }
  std::ostringstream out, err;

 private:
  std::streambuf *out_, *err_;
};

}  // namespace halomesh
