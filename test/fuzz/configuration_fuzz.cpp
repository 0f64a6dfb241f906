// SPDX-License-Identifier: Apache-2.0
// Fuzz target: configuration files of `train`, and the network's settings in a checkpoint.
// The first byte of an input says which of them the rest is.
#include <map>
#include <sstream>

#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {
namespace {

/// Reads every option as the type that it has; their texts and the help page, too.
void read_all(const Options& options) {
  options.resolved();
  options.help();
  options.get<Shape>("input");
  options.get<std::vector<std::int64_t>>("fc");
  options.get<double>("dropout");
}

void read_configuration(Bytes file) {
  const std::string path = scratch().put("train.cfg", file).string();
  attempt([&] {
    Options options = all_run_options();
    options.parse({"--data=here", "--out=there", "--config=" + path});
    read_all(options);
    options.get<PartGrid>("parts");
    options.get<std::vector<double>>("decay-factors");
    options.get<std::uint64_t>("seed");
  });
}

/// Lines NAME=VALUE as the attributes of a checkpoint.
void read_settings(Bytes text) {
  std::map<std::string, std::string> settings;
  std::istringstream lines{std::string(as_text(text))};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = std::min(line.find('='), line.size());
    settings[line.substr(0, end)] = line.substr(std::min(end + 1, line.size()));
  }
  attempt([&] { read_all(options_of_settings(settings, "a file")); });
}

}  // namespace
}  // namespace halomesh::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh::fuzz;
  if (size == 0) return 0;
  const Bytes rest(data + 1, size - 1);
  if (data[0] % 4 == 0)
    read_settings(rest);
  else
    read_configuration(rest);
  return 0;
}
