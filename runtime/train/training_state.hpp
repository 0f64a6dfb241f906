// SPDX-License-Identifier: Apache-2.0
// The state of a training run besides its parameters, which a checkpoint stores as attributes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace halomesh {

/// The position of a training run, and the network that it trains.
struct TrainingState {
  std::int64_t step = 0;                ///< optimizer steps done
  std::int64_t epoch = 0;               ///< epoch of the next step, from 0
  std::int64_t samples_into_epoch = 0;  ///< samples of that epoch used so far, over all replicas
  std::uint64_t seed = 0;
  std::map<std::string, std::string> model;  ///< options that rebuild the network
  std::map<std::string, std::string> run;    ///< other options that affect the curve (batch, order)
  std::string written_by;                    ///< name and version of the program

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

enum class LoadWhat {
  kAll,              ///< parameters and the optimizer's states
  kParametersOnly,   ///< leaves the states unchanged
  kNeededParameters  ///< so, of a network that may lack layers of the file, such as other outputs
};

/// Converts a state to one text and back, for other ranks and for checksums. Bytes that are not
/// UTF-8 in its names and values come back as U+FFFD.
std::string to_text(const TrainingState& state);
TrainingState state_from_text(const std::string& text);

}  // namespace halomesh
