// SPDX-License-Identifier: Apache-2.0
// Runs a test case on communicators of every size inside one run, and over every cut of each size.
// The ranks agree on the outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "error.hpp"
#include "partition/mesh_shape.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The findings of one rank in one case: the number of compared elements, and a line for each of
/// the first mismatches.
class Findings {
 public:
  /// Counts one comparison; `describe` gives the text of a mismatch.
  template <class Describe>
  void expect(bool equal, const Describe& describe) {
    ++compared_;
    if (!equal && failures_.size() < kKept) failures_.push_back(describe());
  }
  /// Expects equality, bit for bit or of integers; `where` names the value.
  template <class T>
  void expect_equal(const T& got, const T& expected, const std::string& where) {
    expect(got == expected, [&] { return fmt::format("{}: {}, not {}", where, got, expected); });
  }
  void fail(const std::string& text) {
    if (failures_.size() < kKept) failures_.push_back(text);
  }
  /// Adds the findings of a check without ranks.
  void add(std::int64_t compared, const std::vector<std::string>& failures) {
    compared_ += compared;
    for (const std::string& failure : failures) fail(failure);
  }
  std::int64_t compared() const { return compared_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  static constexpr std::size_t kKept = 8;
  std::int64_t compared_ = 0;
  std::vector<std::string> failures_;
};

/// A case on one communicator. All ranks of `comm` run it together; it uses neither another
/// communicator nor a doctest assertion, whose text would not be seen while other ranks hang.
using CommCase = std::function<void(const Comm& comm, Findings& findings)>;

/// Runs the case on sub-communicators of test_world() of each of these sizes (those larger than the
/// world are left out; it fails unless one is left). Collective over test_world(). The last ranks
/// of the world take part, so that rank in the communicator and rank in the world differ. After
/// each size all ranks agree: if one has failed or none has compared anything, all fail and skip
/// the larger sizes. A rank that throws reports it at once, and ends all ranks if they still wait
/// for it 10 s later. After `limit_s` seconds a watchdog ends them, naming rank and `operation`.
void for_comms(const std::string& operation, const std::vector<int>& sizes,
               const CommCase& comm_case, double limit_s = 480);

/// Runs the case on communicators of 1 to 6 ranks.
void for_comms(const std::string& operation, const CommCase& comm_case);

/// All ways to cut in `parts` parts along d, h and w; e.g. 4: 1x1x4, 1x2x2, 1x4x1, 2x1x2, ...
std::vector<PartGrid> grids_of(std::int64_t parts);

}  // namespace halomesh
