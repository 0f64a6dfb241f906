// SPDX-License-Identifier: Apache-2.0
// One node of a graph with its attributes and the version of its operator. Must not know layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/onnx/constant.hpp"

namespace halomesh {

/// A node whose inputs have been found. Inputs that are no constants, or absent, are null.
class OnnxNode {
 public:
  OnnxNode(const OnnxFile& file, const onnx::Node& node, std::vector<const OnnxConstant*> constants)
      : file_(file), node_(node), constants_(std::move(constants)) {}

  const OnnxFile& file() const { return file_; }
  const onnx::Node& proto() const { return node_; }
  std::int64_t opset() const { return file_.opset(); }
  std::size_t inputs() const { return constants_.size(); }
  bool has(std::size_t input) const {
    return input < inputs() && !node_.input(static_cast<int>(input)).empty();
  }
  const OnnxConstant* constant(std::size_t input) const {
    return input < inputs() ? constants_[input] : nullptr;
  }
  /// Throws Error unless the input is a constant.
  const OnnxConstant& required(std::size_t input, const char* what) const;

  const onnx::Attribute* attribute(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t fallback) const;
  float number(const std::string& name, float fallback) const;
  std::string word(const std::string& name, const std::string& fallback) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
  /// Integers that older versions of the operator have as an attribute and newer ones as an input;
  /// empty where neither is given.
  std::optional<std::vector<std::int64_t>> integers(const std::string& name,
                                                    std::size_t input) const;

 private:
  const OnnxFile& file_;
  const onnx::Node& node_;
  std::vector<const OnnxConstant*> constants_;
};

}  // namespace halomesh
