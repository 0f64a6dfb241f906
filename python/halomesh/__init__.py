# SPDX-License-Identifier: Apache-2.0
"""Reads what halomesh writes: the records of a run, checkpoints, traces and measurements of bench.

Put the directory above this one (PREFIX/share/halomesh/python) in PYTHONPATH, or copy this one.

    import halomesh
    run = halomesh.Run("run")
    run.steps["loss"], run.evaluations["mae"]       # NumPy arrays, one element per line
    weights = halomesh.load_checkpoint("run")       # {"conv1.weight": array, ...}
    network = halomesh.torch_module("run")          # the same network in PyTorch
    halomesh.export_onnx(module, sample, "net.onnx")  # for halomesh train --network net.onnx

Needs NumPy; checkpoints need h5py, and torch_module() and state_dict() need PyTorch; state_dict() of an
imported network needs onnx and the program as well. Values that were not finite are NaN.

The package is also the program's commands `report`, `watch`, `export` and `mlperf-summary`, of which
`report` needs Matplotlib and Jinja2; the others need the standard library alone.
"""
__all__ = ["Run", "Trace", "bench", "checkpoint_options", "load_checkpoint", "state_dict",
           "torch_module", "trace"]


def __getattr__(name):
    """Imports NumPy only when one of the functions above is wanted: the commands go without it."""
    if name == "export_onnx":
        from halomesh.onnx_export import export_onnx
        return export_onnx
    if name not in __all__:
        raise AttributeError(f"module 'halomesh' has no attribute '{name}'")
    from halomesh import arrays
    globals().update({each: getattr(arrays, each) for each in __all__})
    return globals()[name]


def __dir__():
    return sorted([*globals(), *__all__])
