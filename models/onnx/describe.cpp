// SPDX-License-Identifier: Apache-2.0
// Tells people how a file was understood: see imported.hpp.
#include <sstream>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/imported.hpp"
#include "text_table.hpp"

namespace halomesh {

std::string describe_onnx(const std::string& source) {
  const ImportedNetwork network = import_onnx(source);
  TextTable table({"layer", "operators", "output", "parameters"}, "<<<>");
  std::int64_t parameters = 0;
  for (const ImportedLayer& layer : network.layers) {
    if (layer.operators.empty()) continue;  // moments of a norm
    table.add({layer.name, layer.operators, fmt::format("{}", layer.shape),
               fmt::format("{}", layer.parameters)});
    parameters += layer.parameters;
  }
  std::ostringstream text;
  text << source << ": " << network.origin << "\ninput " << network.model.input() << ", output "
       << network.computed.front();
  if (network.outputs.size() > 1) text << " of " << joined(network.outputs, ", ");
  text << "\n\n" << table << '\n' << parameters << " parameters\n";
  for (const std::string& note : network.notes) text << "note: " << note << '\n';
  return text.str();
}

}  // namespace halomesh
