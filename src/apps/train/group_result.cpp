// SPDX-License-Identifier: Apache-2.0
// The outcome of a run: see group_result.hpp.
#include "src/apps/train/group_result.hpp"

#include <nlohmann/json.hpp>

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json to_json(const GroupResult& result) {
  Json json = {{"result", result.end},
               {"steps", result.steps},
               {"epochs", result.epochs},
               {key_of(result.kind), result.score ? Json(*result.score) : Json()},
               {"seconds", result.seconds},
               {"trained", result.trained}};
  if (result.has_failed()) {
    json["error"] = result.error;
    json["hint"] = result.hint;
    json["usage"] = result.is_usage;
  }
  return json;
}

GroupResult group_result_of(const Json& json) {
  GroupResult result;
  result.end = json.at("result").get<std::string>();
  result.steps = json.at("steps").get<std::int64_t>();
  result.epochs = json.at("epochs").get<std::int64_t>();
  for (const Score kind : kScores)
    if (const auto score = json.find(key_of(kind)); score != json.end()) {
      result.kind = kind;
      if (!score->is_null()) result.score = score->get<double>();
    }
  result.seconds = json.at("seconds").get<double>();
  result.trained = json.at("trained").get<bool>();
  if (result.has_failed()) {
    result.error = json.at("error").get<std::string>();
    result.hint = json.at("hint").get<std::string>();
    result.is_usage = json.at("usage").get<bool>();
  }
  return result;
}

}  // namespace halomesh
