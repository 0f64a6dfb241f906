// The main of the tests that run as one process without MPI.
// Knows nothing of the rooms under test.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>

#include "test/harness/case_results.hpp"

int main(int argc, char** argv) {
  using namespace halomesh::test;
  doctest::Context context(argc, argv);
  const long skipped = count_skipped(argc, argv);
  const int status = context.run();
  if (context.shouldExit()) return status;
  const std::vector<int>& failed = failed_cases();
  const auto failures = std::count(failed.begin(), failed.end(), 1);
  print_tally(static_cast<long>(failed.size()) - failures, failures, skipped);
  return status;
}
