// SPDX-License-Identifier: Apache-2.0
// The state of a training besides its parameters: what a checkpoint stores as attributes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace halomesh {

/// Where a training stands, and what network it trains.
struct TrainingState {
  std::int64_t step = 0;                ///< optimizer steps done
  std::int64_t epoch = 0;               ///< the one that the next step belongs to, from 0
  std::int64_t samples_into_epoch = 0;  ///< of its order, over all replicas: those already used
  std::uint64_t seed = 0;
  std::map<std::string, std::string> model;  ///< options that rebuild the network
  std::map<std::string, std::string> run;    ///< others that the curve depends on (batch, order)
  std::string written_by;                    ///< name and version of the program

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

enum class LoadWhat {
  kAll,            ///< parameters and the optimizer's velocity
  kParametersOnly  ///< the velocity stays as it is
};

/// A state as one text and back, for other ranks and for checksums.
std::string to_text(const TrainingState& state);
TrainingState state_from_text(const std::string& text);

}  // namespace halomesh
