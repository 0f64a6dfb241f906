// SPDX-License-Identifier: Apache-2.0
// The file of a study: options of training, some with several values.
// Must not depend on MPI.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/apps/options/options.hpp"

namespace halomesh {

/// Option names with their values, in the order of the file.
using StudyValues = std::vector<std::pair<std::string, std::string>>;

/// One training run of a study.
struct StudyCell {
  StudyValues varied;  ///< differs between the rows of the study
  std::uint64_t seed = 0;
  std::string name;  ///< the name of its directory: "batch-4_optimizer-lamb_seed-1"

  /// True if the two differ at most by the seed.
  bool is_of_row(const StudyCell& other) const { return varied == other.varied; }
};

/// A grid of training runs. The file has lines as a configuration has,
///   NAME = VALUE                          one value for all cells
///   NAME = {VALUE | VALUE | ...}          a dimension of the grid
///   NAME & NAME = {VALUE & VALUE | ...}   a dimension of values that belong together
/// with comments after # or ;. Values may be lists, such as fc = {32,16 | 64,32}.
class StudyGrid {
 public:
  /// Throws UsageError, naming file and line, for an unreadable file and for invalid lines, options
  /// and values.
  explicit StudyGrid(const std::string& file);

  /// All combinations of values, the last line's changing fastest, each with `seeds` seeds from
  /// `first_seed` on. Throws UsageError for more than kMostCells, and for two of one name.
  std::vector<StudyCell> cells(std::uint64_t first_seed, std::int64_t seeds) const;
  /// The values that all cells share.
  const StudyValues& common() const { return common_; }

  static constexpr std::int64_t kMostCells = 10000;

 private:
  using Dimension = std::vector<StudyValues>;  // its alternatives

  std::string file_;
  StudyValues common_;
  std::vector<Dimension> dimensions_;
};

/// The options of `train` for one cell: those of the configuration `config` ("": none), overridden
/// by `common`, the cell's and `more`.
Options options_of_cell(const std::string& config, const StudyValues& common, const StudyCell& cell,
                        const StudyValues& more);

}  // namespace halomesh
