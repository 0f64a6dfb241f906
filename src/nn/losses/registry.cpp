// SPDX-License-Identifier: Apache-2.0
// The losses by name: see registry.hpp.
#include "src/nn/losses/registry.hpp"

#include <stdexcept>

namespace halomesh {
namespace {

const std::vector<NamedLoss>& losses() {
  static const std::vector<NamedLoss> kAll = Registered<NamedLoss>::all();
  return kAll;
}

}  // namespace

std::vector<std::string> loss_names(DataType targets) {
  std::vector<std::string> names;
  for (const NamedLoss& loss : losses())
    if (loss.targets == targets) names.push_back(loss.name);
  return names;
}

std::string loss_summaries(DataType targets) {
  std::string all;
  for (const NamedLoss& loss : losses())
    if (loss.targets == targets) all += (all.empty() ? "" : "; ") + loss.name + ": " + loss.summary;
  return all;
}

std::unique_ptr<Loss> make_loss(const std::string& name, const Shape& output,
                                const LossSettings& settings) {
  for (const NamedLoss& loss : losses())
    if (loss.name == name) return loss.make(output, settings);
  throw std::logic_error("there is no loss " + name);
}

}  // namespace halomesh
