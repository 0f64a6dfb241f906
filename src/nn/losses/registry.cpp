// SPDX-License-Identifier: Apache-2.0
// The losses by name: see registry.hpp.
#include "src/nn/losses/registry.hpp"

#include <stdexcept>

namespace halomesh {
namespace {

std::vector<NamedLoss> losses(DataType targets) {
  if (targets == DataType::kUint8) return Registered<NamedLoss>::all();
  const std::vector<NamedSampleLoss> all = Registered<NamedSampleLoss>::all();
  return {all.begin(), all.end()};
}

}  // namespace

std::vector<std::string> loss_names(DataType targets) {
  std::vector<std::string> names;
  for (const NamedLoss& loss : losses(targets)) names.push_back(loss.name);
  return names;
}

std::string loss_summaries(DataType targets) {
  std::string all;
  for (const NamedLoss& loss : losses(targets))
    all += (all.empty() ? "" : "; ") + loss.name + ": " + loss.summary;
  return all;
}

std::unique_ptr<Loss> make_loss(const std::string& name, const Shape& output,
                                const LossSettings& settings) {
  const bool is_vector = output.spatial() == Spatial{1, 1, 1};
  for (const bool of_samples : {is_vector, !is_vector})
    for (const NamedLoss& loss : losses(of_samples ? DataType::kFloat32 : DataType::kUint8))
      if (loss.name == name) return loss.make(output, settings);
  throw std::logic_error("there is no loss " + name);
}

}  // namespace halomesh
