#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published networks at their full width, from their packages, on whole and cut samples.

Each is exported by the program's own function and by both exporters of torch, and `predict` is
compared with onnxruntime, or with torch where onnxruntime does not take the file. Prints a row for each:
its parameters and the largest error.
Usage: real_networks.py [NAME...]; `make real-networks` installs the packages and runs it.
Environment: HALOMESH (the program), MPIRUN.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import types

import numpy
import onnx
import onnxruntime
import torch

SOURCE = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(SOURCE / "python"))
from halomesh.onnx_export import export_onnx  # noqa: E402

MESHES = ((1, "1x1x1"), (2, "2x1x1"), (4, "2x2x1"), (6, "3x2x1"))
TOLERANCE, MOST_ON_MANY = 1e-5, 60e6
STAGES = (32, 64, 128, 256, 320, 320)
STRIDES = (1, 2, 2, 2, 2, 2)


def monai(name, *words, **settings):
    import monai.networks.nets
    return getattr(monai.networks.nets, name)(*words, **settings)


def nnunet(name, blocks, **settings):
    import dynamic_network_architectures.architectures.unet as unets
    return getattr(unets, name)(
        1, 6, STAGES, torch.nn.Conv3d, 3, STRIDES, blocks, 3, conv_bias=True, norm_op=torch.nn.InstanceNorm3d,
        norm_op_kwargs={"eps": 1e-5, "affine": True}, nonlin=torch.nn.LeakyReLU, **settings)


def unet3d(name, **settings):
    # Of scikit-image, the package takes only what draws pictures.
    for module in ("skimage", "skimage.color"):
        sys.modules.setdefault(module, types.SimpleNamespace(label2rgb=None, color=None))
    import pytorch3dunet.unet3d.model as models
    return getattr(models, name)(1, 1, **settings)


def package_file(package, *path):
    """A module of a package whose other modules need more than is installed."""
    import importlib.util
    root = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    return root.joinpath(*path)


def resnet():
    text = package_file("torchvision", "models", "video", "resnet.py").read_text()
    kept = [line for line in text.split("\n") if not line.startswith("from ...")and not line.startswith("from ..")]
    text = "\n".join(kept)
    text = text[:text.index("_COMMON_META")]
    module = {"__name__": "resnet", "_log_api_usage_once": lambda self: None, "WeightsEnum": object}
    exec(compile(text, "resnet.py", "exec"), module)  # noqa: S102
    return module["VideoResNet"](module["BasicBlock"], [module["Conv3DSimple"]] * 4, [2, 2, 2, 2],
                                 module["BasicStem"])


def the_well(path, name, *words, **settings):
    for module in ("the_well.data", "the_well.data.datasets"):
        sys.modules.setdefault(module, types.ModuleType(module))
    import importlib
    # Of these, the networks take no more than a name.
    for module, taken in (("huggingface_hub", "PyTorchModelHubMixin"), ("timm", ""), ("timm.models", ""),
                          ("timm.models.layers", "DropPath")):
        sys.modules.setdefault(module, types.ModuleType(module))
        setattr(sys.modules[module], taken, type(taken, (), {}))
    for part in ("the_well.benchmark", "the_well.benchmark.models"):
        module = types.ModuleType(part)
        module.__path__ = [str(package_file("the_well", *part.split(".")[1:]))]
        sys.modules.setdefault(part, module)
    return getattr(importlib.import_module(f"the_well.benchmark.models.{path}"), name)(*words, **settings)


# Name: how it is made, the shape of its input, its parameters in torch and, where unused ones are gone, in a file.
NETWORKS = {
    "MONAI UNet": (lambda: monai("UNet", 3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2,
                                 norm="batch"), (1, 1, 64, 64, 48), 4808917),
    "MONAI BasicUNet": (lambda: monai("BasicUNet", 3, 1, 2), (1, 1, 50, 49, 60), 5749410),
    "nnU-Net": (lambda: nnunet("PlainConvUNet", 2, n_conv_per_stage_decoder=2), (1, 1, 96, 64, 64), 31196399, 31194083),
    "nnU-Net ResEnc": (lambda: nnunet("ResidualEncoderUNet", (1, 3, 4, 6, 6, 6), n_conv_per_stage_decoder=(1,) * 5,
                                      deep_supervision=True), (1, 1, 64, 64, 64), 102350575, 102348259),
    "MONAI SegResNet": (lambda: monai("SegResNet", 3, 16, 4, 3, blocks_down=(1, 2, 2, 4), blocks_up=(1, 1, 1)),
                        (1, 4, 48, 40, 32), 4702227),
    "MONAI VNet": (lambda: monai("VNet", 3, 1, 1), (1, 1, 48, 48, 32), 45593892),
    "UNet3D": (lambda: unet3d("UNet3D", f_maps=64, num_levels=4), (1, 1, 26, 40, 36), 16318691),
    "ResidualUNetSE3D": (lambda: unet3d("ResidualUNetSE3D", f_maps=64, num_levels=5), (1, 1, 32, 32, 32), 117233866),
    "r3d_18": (resnet, (1, 3, 16, 56, 48), 33371472),
    "UNetClassic": (lambda: the_well("unet_classic", "UNetClassic", 28, 7, 3, (48, 32, 32), init_features=48),
                    (1, 28, 48, 32, 32), 50830951),
    "CNextU-net": (lambda: the_well("unet_convnext", "UNetConvNext", 28, 7, 3, (48, 32, 32), stages=4,
                                    blocks_per_stage=2, init_features=42), (1, 28, 48, 32, 32), 22315405, 22313515)}


def vary(module):
    """Values that are not neutral, as training leaves them."""
    random = torch.Generator().manual_seed(1)
    for name, value in list(module.named_parameters()) + list(module.named_buffers()):
        if not value.is_floating_point() or "num_batches" in name:
            continue
        noise = torch.randn(value.shape, generator=random)
        with torch.no_grad():
            if name.endswith("running_var"):
                value.copy_(1 + 0.3 * noise.abs())
            elif value.dim() < 2:
                value.add_(0.1 * noise)
    return module


def exported(module, x, path, how):
    if how == "own":
        export_onnx(module, x, str(path))
    elif how == "default":
        torch.onnx.export(module.eval(), (x,), str(path), verbose=False)
    else:
        torch.onnx.export(module.eval(), (x,), str(path), dynamo=False)


def reference(module, x, path):
    """The outputs of onnxruntime, or of torch where it does not take the file or drops out; and whose they are."""
    try:
        nodes = onnx.load(path, load_external_data=False).graph.node
        if any(node.op_type in ("Dropout", "RandomUniformLike") for node in nodes):
            raise RuntimeError("dropout")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: x.numpy()}), "onnxruntime"
    except Exception:  # noqa: BLE001
        with torch.no_grad():
            y = module.eval()(x)
        return [v.numpy() for v in (y if isinstance(y, (list, tuple)) else [y])], "torch"


def off(y, expected):
    return float(numpy.abs(y - expected).max() / numpy.abs(expected).max())


def explained(module, x, expected, far):
    """Whether outputs that differ are at least as near to double precision as those that they differ from."""
    with torch.no_grad():
        exact = module.eval().double()(x.double())
    exact = [y.numpy() for y in (exact if isinstance(exact, (list, tuple)) else [exact])]
    return all(off(mine, exact[i]) <= max(off(expected[i], exact[i]), TOLERANCE) for i, mine in far)


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def compare(folder, name, how):
    make, shape, *counts = NETWORKS[name]
    torch.manual_seed(0)
    module = vary(make())
    total = sum(p.numel() for p in module.parameters())
    assert total == counts[0], f"{name} has {total} parameters instead of {counts[0]}"
    x = torch.randn(shape)
    path, program = folder / "net.onnx", os.environ.get("HALOMESH", str(SOURCE / "build" / "halomesh"))
    for old in folder.iterdir():
        old.unlink()
    exported(module, x, path, how)
    layers = run(program, "info", path).split("\n")
    parameters = next(int(line.split()[0]) for line in reversed(layers) if line.endswith(" parameters"))
    expected, whose = reference(module, x, path)
    numpy.save(folder / "x.npy", x.numpy())
    errors, far = [], []
    for ranks, parts in MESHES:
        if ranks > 2 and total > MOST_ON_MANY:
            continue
        run(*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", ranks, program, "predict", "--network", path,
            "--parts", parts, "--data", folder / "x.npy", "--out", folder / "y.npy")
        for i, y in enumerate(expected):
            mine = numpy.load(folder / (f"y.{i}.npy" if i else "y.npy")).reshape(y.shape)
            errors.append(off(mine, y))
            if errors[-1] > TOLERANCE:
                far.append((i, mine))
    bad = far and not explained(module, x, expected, far) or how == "own" and parameters != counts[-1]
    print(f"{'FAIL' if bad else 'ok  '} {name}, {how}: {total:,} parameters, {parameters:,} in the file; "
          f"{len(errors)} outputs, largest error {max(errors):.1e} of the largest value of {whose}", flush=True)
    return not bad


def main():
    names, good = sys.argv[1:] or list(NETWORKS), []
    with tempfile.TemporaryDirectory(prefix="halomesh-") as folder:
        for name in names:
            for how in ("own", "default", "legacy"):
                try:
                    good.append(compare(pathlib.Path(folder), name, how))
                except Exception as error:  # noqa: BLE001
                    print(f"FAIL {name}, {how}: {error}", flush=True)
                    good.append(False)
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
