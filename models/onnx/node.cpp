// SPDX-License-Identifier: Apache-2.0
// One node of a graph: see node.hpp.
#include "models/onnx/node.hpp"

#include "error.hpp"

namespace halomesh {

const OnnxConstant& OnnxNode::required(std::size_t input, const char* what) const {
  const OnnxConstant* const found = constant(input);
  require(found != nullptr, text("its {} (input {}) is not a constant", what, input),
          "export it with fixed values");
  return *found;
}

const onnx::Attribute* OnnxNode::attribute(const std::string& name) const {
  for (const onnx::Attribute& each : node_.attribute())
    if (each.name() == name) return &each;
  return nullptr;
}

std::int64_t OnnxNode::integer(const std::string& name, std::int64_t fallback) const {
  const onnx::Attribute* const found = attribute(name);
  return found == nullptr ? fallback : found->i();
}

float OnnxNode::number(const std::string& name, float fallback) const {
  const onnx::Attribute* const found = attribute(name);
  return found == nullptr ? fallback : found->f();
}

std::string OnnxNode::word(const std::string& name, const std::string& fallback) const {
  const onnx::Attribute* const found = attribute(name);
  return found == nullptr ? fallback : found->s();
}

std::vector<std::int64_t> OnnxNode::integers(const std::string& name) const {
  const onnx::Attribute* const found = attribute(name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

std::optional<std::vector<std::int64_t>> OnnxNode::integers(const std::string& name,
                                                            std::size_t input) const {
  if (has(input)) return required(input, name.c_str()).integers();
  if (attribute(name) != nullptr) return integers(name);
  return {};
}

}  // namespace halomesh
