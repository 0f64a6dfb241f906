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
    optimizer.fold_constants(program.model)
    rewriter.rewrite(program.model, [common.remove_optional_bias_from_conv_rule,
                                     common.remove_optional_bias_from_conv_transpose_rule])
    optimizer.remove_unused_nodes(program.model)
    program.save(path)
