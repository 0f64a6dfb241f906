// SPDX-License-Identifier: Apache-2.0
// All operators of ONNX: see operators.hpp.
#include "models/onnx/operators.hpp"

namespace halomesh {

OnnxResults onnx_unchanged(OperatorCall& call) { return call.value(0); }

OnnxValue flat_value(OnnxValue value) {
  value.form = OnnxForm::kFlat;
  value.dims = {value.dims[0], OnnxConstant::volume_of(value.dims) / value.dims[0]};
  return value;
}

OnnxOperator onnx_operator(const std::string& name) {
  static const OnnxOperatorTable kOperators = [] {
    OnnxOperatorTable all;
    for (const auto& group :
         {window_operators(), pointwise_operators(), arithmetic_operators(), shape_operators()})
      all.insert(group.begin(), group.end());
    return all;
  }();
  const auto found = kOperators.find(name);
  return found == kOperators.end() ? nullptr : found->second;
}

}  // namespace halomesh
