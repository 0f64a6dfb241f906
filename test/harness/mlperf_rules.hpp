// SPDX-License-Identifier: Apache-2.0
// The rules of MLPerf HPC v1.0, closed division, for a CosmoFlow log, from
// github.com/mlcommons/logging, compliance_checker/hpc_1.0.0.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace halomesh::test {

using MlperfLines = std::vector<nlohmann::ordered_json>;

/// Parses the JSON of each line; a malformed line becomes null.
inline MlperfLines parse_mlperf(const std::string& text) {
  const std::string token = ":::MLLOG ";
  MlperfLines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line.starts_with(token)
                        ? nlohmann::ordered_json::parse(line.substr(token.size()), nullptr, false)
                        : nlohmann::ordered_json());
  return lines;
}

inline std::vector<std::string> mlperf_keys(const MlperfLines& lines) {
  std::vector<std::string> keys;
  for (const auto& line : lines) keys.push_back(line.value("key", "(none)"));
  return keys;
}

/// All violations of the rules, as text; `rules_checked` counts the rules checked.
class MlperfRules {
 public:
  explicit MlperfRules(double target) : target_(target) {}

  std::vector<std::string> problems(const std::string& text) {
    const MlperfLines lines = parse_mlperf(text);
    for (const auto& line : lines) check_line(line);
    for (const char* key :
         {"submission_org", "submission_platform", "submission_division", "submission_status",
          "submission_benchmark", "init_stop", "run_start", "run_stop", "train_samples",
          "eval_samples", "number_of_nodes", "accelerators_per_node", "global_batch_size",
          "opt_name", "opt_base_learning_rate", "opt_learning_rate_warmup_epochs",
          "opt_learning_rate_warmup_factor", "opt_learning_rate_decay_boundary_epochs",
          "opt_learning_rate_decay_factor"})
      want(count_[key] == 1, std::string(key) + " not exactly once");
    for (const char* key : {"cache_clear", "init_start", "epoch_start", "epoch_stop", "eval_start",
                            "eval_stop", "eval_error"})
      want(count_[key] >= 1, std::string(key) + " missing");
    want(reached_, "no eval_error at the target");
    return problems_;
  }
  int rules_checked() const { return checked_; }

 private:
  using Json = nlohmann::ordered_json;

  void want(bool holds, const std::string& what) {
    ++checked_;
    if (!holds) problems_.push_back(what);
  }

  void check_line(const Json& line) {
    if (!line.is_object()) return want(false, "a line of another form");
    std::vector<std::string> names;
    for (const auto& item : line.items()) names.push_back(item.key());
    want(names == std::vector<std::string>{"namespace", "time_ms", "event_type", "key", "value",
                                           "metadata"},
         "names or order of a line");
    const std::string key = line.value("key", "");
    want(line["time_ms"].is_number_integer() && line["time_ms"] >= last_ms_, key + ": time");
    last_ms_ = line["time_ms"];
    const Json& metadata = line["metadata"];
    want(metadata.contains("file") && metadata.contains("lineno"), key + ": metadata");
    const std::string wanted_type = key.ends_with("_start")  ? "INTERVAL_START"
                                    : key.ends_with("_stop") ? "INTERVAL_END"
                                                             : "POINT_IN_TIME";
    want(line["event_type"] == wanted_type, key + ": event_type");
    if (key.starts_with("epoch_") || key.starts_with("eval_st") || key == "eval_error")
      want(metadata.contains("epoch_num"), key + ": epoch_num");
    check_order(key, metadata);
    check_value(key, line["value"]);
    ++count_[key];
  }

  void check_order(const std::string& key, const Json& metadata) {
    if (key == "init_start") {
      want(count_["init_stop"] == 0 && count_["run_start"] == 0, "init_start too late");
      if (count_[key] == 0) init_ms_ = last_ms_;
    } else if (key == "init_stop") {
      want(count_["init_start"] > 0 && count_["run_start"] == 0, "init_stop out of order");
      want(last_ms_ - init_ms_ < 30 * 60 * 1000, "init longer than 30 minutes");
    } else if (key == "run_start") {
      want(count_["init_stop"] == 1, "run_start before init_stop");
    } else if (key == "staging_start") {
      want(count_["run_start"] == 1, "staging_start outside the run");
    } else if (key == "staging_stop") {
      want(count_["staging_start"] > count_[key], "staging_stop without staging_start");
    } else if (key == "run_stop") {
      want(count_["run_start"] == 1, "run_stop before run_start");
      want(metadata.contains("status"), "run_stop without status");
    }
  }

  void check_value(const std::string& key, const Json& value) {
    const auto one_of = [&](std::vector<std::string> words) {
      bool found = false;
      for (const std::string& word : words) found = found || value == word;
      want(found, key + ": " + value.dump());
    };
    const auto at_least = [&](double bound) {
      want(value.is_number() && value >= bound, key + ": " + value.dump());
    };
    if (key == "submission_org" || key == "submission_platform")
      want(value.is_string() && value != "", key + " is empty");
    else if (key == "submission_division")
      one_of({"closed"});
    else if (key == "submission_status")
      one_of({"cloud", "onprem", "preview", "research"});
    else if (key == "submission_benchmark")
      one_of({"cosmoflow"});
    else if (key == "opt_name")
      one_of({"sgd", "SGD"});
    else if (key == "number_of_nodes" || key == "global_batch_size")
      at_least(1);
    else if (key == "accelerators_per_node" || key == "opt_base_learning_rate" ||
             key == "opt_learning_rate_warmup_epochs" || key == "opt_learning_rate_warmup_factor" ||
             key == "opt_weight_decay")
      at_least(0);
    else if (key == "dropout")
      want(value >= 0 && value < 1, key + ": " + value.dump());
    else if (key == "eval_error" && value.is_number() && value > 0 && value <= target_)
      reached_ = true;
  }

  double target_;
  std::map<std::string, int> count_;
  std::vector<std::string> problems_;
  std::int64_t last_ms_ = 0, init_ms_ = 0;
  bool reached_ = false;
  int checked_ = 0;
};

}  // namespace halomesh::test
