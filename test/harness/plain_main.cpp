// SPDX-License-Identifier: Apache-2.0
// The main of the tests that run as one process without MPI.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "test/harness/case_results.hpp"

int main(int argc, char** argv) {
  using namespace halomesh::test;
  doctest::Context context(argc, argv);
  const long left_out = count_skipped(argc, argv);
  const int status = context.run();
  if (context.shouldExit()) return status;
  print_tally(count_outcomes(kPassed), count_outcomes(kFailed),
              count_outcomes(kSkipped) + left_out);
  return status;
}
