// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX that networks may have, in tables by group, and what groups share. An
// operator is one function and one entry of a table; it throws Error for what its layer cannot
// compute, and importers of files list these.
#pragma once

#include <map>
#include <string_view>

#include "models/onnx/graph.hpp"
#include "src/nn/layers/channel_normalize.hpp"
#include "src/nn/layers/elementwise.hpp"

namespace halomesh {

using OnnxOperatorTable = std::map<std::string_view, OnnxOperator>;
using ElementKind = ElementFunction::Kind;

OnnxOperatorTable window_operators();
OnnxOperatorTable pointwise_operators();
OnnxOperatorTable arithmetic_operators();
OnnxOperatorTable shape_operators();

/// The first input as it is.
OnnxResults onnx_unchanged(OperatorCall& call);
/// The value of a tensor of one voxel without its axes of extent 1, as keepdims = 0 writes it.
OnnxValue flat_value(OnnxValue value);
/// A function of each element of an input.
OnnxValue add_element(OperatorCall& call, std::size_t input, const ElementFunction& function);
/// A normalization of each voxel's channels.
OnnxResults channel_normalization(OperatorCall& call, ChannelNormalizeOptions::Kind kind,
                                  float epsilon, OnnxParameters parameters);

}  // namespace halomesh
