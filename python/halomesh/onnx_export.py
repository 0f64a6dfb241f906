# SPDX-License-Identifier: Apache-2.0
"""Exports a PyTorch module so that halomesh trains it as it is: see export_onnx()."""


def export_onnx(module, sample, path):
    """Writes `module` to the ONNX file `path`; `sample` is a tensor of the shape N,C,D,H,W.

    The module is exported in train mode: its parameters keep their names, no batch norm is folded
    into a convolution, and equal parameters are not merged. Needs torch, onnx and onnxscript.
    """
    import torch
    from onnxscript import optimizer, rewriter
    from onnxscript.rewriter.rules import common

    program = torch.onnx.export(module.train(), (sample,), dynamo=True, optimize=False)
    names = set(module.state_dict())  # a tensor that is folded into another loses its name
    optimizer.fold_constants(program.model, should_fold=lambda node: False if any(
        value is not None and value.name in names for value in node.inputs) else None)
    rewriter.rewrite(program.model, [common.remove_optional_bias_from_conv_rule,
                                     common.remove_optional_bias_from_conv_transpose_rule])
    optimizer.remove_unused_nodes(program.model)
    program.save(path)
