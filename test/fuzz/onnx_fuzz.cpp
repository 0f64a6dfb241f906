// SPDX-License-Identifier: Apache-2.0
// Fuzz target: ONNX files of networks, and what is made of them.
#include "models/onnx/imported.hpp"
#include "test/fuzz/scratch.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh;
  using namespace halomesh::fuzz;
  const std::string file = scratch().put("net.onnx", Bytes(data, size)).string();
  attempt([&] {
    const ImportedNetwork network = import_onnx(file, {});
    const auto values = onnx_values(file, network.parameters);
    onnx_with_values(file, network.model.input(), network.parameters, values);
    import_onnx(embedded_graph(file), {});
  });
  return 0;
}
