// SPDX-License-Identifier: Apache-2.0
// The program's own networks as ONNX files.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "src/nn/model.hpp"

namespace halomesh {

/// The values of parameter number `number` of layer `layer`, in its logical order.
using ParameterValues =
    std::function<std::span<const float>(std::size_t layer, std::size_t number)>;

/// The bytes of a file that computes what the network predicts: parameters have the names
/// LAYER.weight, LAYER.bias and so on, the input is N,C,D,H,W in fp32, counts included. Throws
/// Error naming a layer that it cannot write.
std::string onnx_of(const Model& model, const ParameterValues& values);

}  // namespace halomesh
