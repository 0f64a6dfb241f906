// SPDX-License-Identifier: Apache-2.0
// The choice between kernels for several instruction sets. Compiled for each of them, as the tests
// of the kernels are.
#include "src/nn/kernels/isa_kernels.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/kernels/isa_table.hpp"

namespace halomesh {
namespace {

// Those of the program and those that this test was compiled with.
std::vector<const IsaKernels*> all_kernels() {
  const auto built = built_isa_kernels();
  std::vector<const IsaKernels*> all(built.begin(), built.end());
  all.push_back(&kIsaKernels);
  return all;
}

}  // namespace

TEST_CASE("the best kernels that the CPU runs are chosen, or those that are named") {
  const auto built = built_isa_kernels();
  REQUIRE_FALSE(built.empty());
  CHECK(built.back()->is_baseline);
  CHECK(&choose_isa_kernels("baseline") == built.back());
  bool better = false;
  for (const IsaKernels* kernels : built) {
    CAPTURE(kernels->isa);
    if (!cpu_runs(*kernels)) {
      CHECK_THROWS_AS(choose_isa_kernels(kernels->isa), UsageError);
      continue;
    }
    CHECK(&choose_isa_kernels(kernels->isa) == kernels);
    if (!better) CHECK(&choose_isa_kernels("") == kernels);
    better = true;
  }
  CHECK(better);
}

TEST_CASE("kernels that were not built are refused by name, with those that were") {
  std::string what, hint;
  try {
    choose_isa_kernels("avx3");
  } catch (const UsageError& e) {
    what = e.what();
    hint = e.hint();
  }
  CHECK(what.find("HALOMESH_ISA=avx3") != std::string::npos);
  CHECK(hint.find(built_isa_kernels().back()->isa) != std::string::npos);
}

TEST_CASE("kernels of each instruction set throw errors that the program catches, and compute") {
  for (const IsaKernels* kernels : all_kernels()) {
    CAPTURE(kernels->isa);
    if (!cpu_runs(*kernels)) continue;
    ConvolutionBlockOptions none;
    none.filters = 0;
    CHECK_THROWS_AS(kernels->make_convolution_block(none), Error);
    const double one = kernels->run_multiply_adds(1);
    CHECK(one > 0);
    CHECK(kernels->run_multiply_adds(100) == 100 * one);
  }
}

}  // namespace halomesh
