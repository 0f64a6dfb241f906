// SPDX-License-Identifier: Apache-2.0
// The state of a training run besides its parameters: see training_state.hpp.
#include "runtime/train/training_state.hpp"

#include <nlohmann/json.hpp>

namespace halomesh {

std::string to_text(const TrainingState& state) {
  return nlohmann::json::array({state.step, state.epoch, state.samples_into_epoch, state.seed,
                                state.model, state.run, state.written_by})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

TrainingState state_from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  TrainingState state;
  json.at(0).get_to(state.step);
  json.at(1).get_to(state.epoch);
  json.at(2).get_to(state.samples_into_epoch);
  json.at(3).get_to(state.seed);
  json.at(4).get_to(state.model);
  json.at(5).get_to(state.run);
  json.at(6).get_to(state.written_by);
  return state;
}

}  // namespace halomesh
