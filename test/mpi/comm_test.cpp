// SPDX-License-Identifier: Apache-2.0
// Texts of ranks, and the communicator of a node.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {
namespace {

TEST_CASE("texts are gathered in rank order: on rank 0, on all, or the first that is not empty") {
  for_comms("texts", [](const Comm& comm, Findings& findings) {
    const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank), 'x'); };
    std::vector<std::string> expected;
    for (int rank = 0; rank < comm.size(); ++rank) expected.push_back(text_of(rank));
    findings.expect(comm.all_gather(text_of(comm.rank())) == expected,
                    [] { return std::string("wrong texts on all"); });
    const auto gathered = comm.gather(text_of(comm.rank()));
    findings.expect(gathered == (comm.rank() == 0 ? expected : std::vector<std::string>()),
                    [] { return std::string("wrong texts on rank 0, or texts elsewhere"); });
    findings.expect_equal(comm.first_text(text_of(comm.rank())), text_of(comm.size() > 1 ? 1 : 0),
                          "the first text");
    findings.expect_equal<std::string>(comm.first_text(""), "", "no text");
  });
}

TEST_CASE("all ranks throw the error of the first that failed") {
  for_comms("shared errors", [](const Comm& comm, Findings& findings) {
    std::string caught;
    try {
      on_all_ranks(comm, [&] {
        if (comm.size() == 1 || 2 * comm.rank() >= comm.size())
          throw Error(fmt::format("rank {}", comm.rank()), "hint");
      });
    } catch (const Error& error) {
      caught = std::string(error.what()) + error.hint();
    }
    const int first = comm.size() > 1 ? (comm.size() + 1) / 2 : 0;
    findings.expect_equal(caught, fmt::format("rank {}hint", first), "error");
    on_all_ranks(comm, [] {});
  });
}

TEST_CASE("ranks of one machine share a node, which copies of a communicator share") {
  for_comms("nodes", [](const Comm& comm, Findings& findings) {
    const Comm& node = comm.node();
    findings.expect_equal(node.size(), comm.size(), "ranks of the node");
    findings.expect(&comm.dup().node() == &node && &comm.node() == &node,
                    [] { return std::string("another communicator of the node"); });
    const ProcessMesh mesh(comm, {comm.size(), {1, 1, 1}});
    findings.expect(&mesh.node() == &node, [] { return std::string("a node of the mesh's own"); });
    findings.expect_equal(mesh.ranks_per_node(), comm.size(), "ranks a node");
  });
}

}  // namespace
}  // namespace halomesh
