#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch through their ONNX files: the numbers of PyTorch and ONNX Runtime, and back.

Optional: `make deps ONNX=1` installs PyTorch, ONNX and ONNX Runtime into build/onnx; without it, cases are skipped.
HALOMESH_NETWORKS may name a directory of networks (DIR/NAME/net.onnx with reference.npz), which are exported again.
"""
import copy
import os
import pathlib
import shlex
import subprocess
import sys
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import PROGRAM, SOURCE, Scene, command, run

INTERPRETER = SOURCE / "build" / "onnx" / "bin" / "python3"
if INTERPRETER.exists() and pathlib.Path(sys.prefix) != INTERPRETER.parents[1]:
    os.execv(INTERPRETER, [str(INTERPRETER), *sys.argv])

try:
    import h5py  # for the checkpoints that the package reads
    import halomesh
    import numpy
    import onnx
    import onnxruntime
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}; make deps ONNX=1 installs it\n0 passed, 0 failed, 5 skipped")
    sys.exit(0)

warnings.filterwarnings("ignore")
LAUNCHER = shlex.split(os.environ.get("MPIRUN", "mpirun"))
EXTENTS = (16, 16, 16)


def block(channels, filters, **convolution):
    return nn.Sequential(nn.Conv3d(channels, filters, 3, padding=1, **convolution), nn.BatchNorm3d(filters), nn.PReLU())


class Levels(nn.Module):
    """A U-Net with batch norms, PReLUs and a head on each level."""

    def __init__(self):
        super().__init__()
        self.top, self.low = block(1, 6, bias=False), block(6, 8)
        self.pool, self.up = nn.MaxPool3d(2), nn.Upsample(scale_factor=2, mode="trilinear")
        self.last, self.head, self.low_head = block(14, 6), nn.Conv3d(6, 3, 1), nn.Conv3d(8, 3, 1)

    def forward(self, x):
        top = self.top(x)
        low = self.low(self.pool(top))
        return self.head(self.last(torch.cat([top, self.up(low)], 1))), self.low_head(low)


class Gates(nn.Module):
    """Group norms, gates of channels, depthwise convolutions, layer norms over channels, dropout of channels."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv3d(1, 8, 3, padding=1), nn.GroupNorm(4, 8)
        self.squeeze, self.excite = nn.Linear(8, 4), nn.Linear(4, 8)
        self.depthwise, self.layer_norm = nn.Conv3d(8, 8, 5, padding=2, groups=8), nn.LayerNorm(8)
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.dropout, self.last = nn.Dropout3d(0.25), nn.Conv3d(8, 3, 1)

    def forward(self, x):
        x = nn.functional.silu(self.norm(self.first(x)))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3, 4))))))
        x = x * gate[:, :, None, None, None]
        y = self.layer_norm(self.depthwise(x).permute(0, 2, 3, 4, 1))
        y = self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 4, 1, 2, 3)
        return self.last(self.dropout(x + y))


class Regression(nn.Module):
    """Circular padding, strides, average pooling and dense layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(1, 4, 3, padding=1, padding_mode="circular"), nn.ELU(), nn.AvgPool3d(2),
            nn.Conv3d(4, 8, 3, stride=2, padding=1), nn.InstanceNorm3d(8, affine=True), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(8 * 64, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)


class Flat(nn.Module):
    """Outputs of a sample, as probabilities where `ending` says so, or scores of voxels."""

    def __init__(self, outputs, ending, voxels=False):
        super().__init__()
        self.first = nn.Conv3d(1, 4, 3, stride=1 if voxels else 2, padding=1)
        self.last = nn.Conv3d(4, outputs, 1) if voxels else nn.Sequential(nn.Flatten(), nn.Linear(4 * 512, outputs))
        self.ending = ending

    def forward(self, x):
        return self.ending(self.last(torch.tanh(self.first(x))))


# Networks that end in probabilities, or have one channel.
ENDINGS = {"softmax": Flat(3, nn.Softmax(1)), "logarithm": Flat(3, nn.LogSoftmax(1), True),
           "softmax of voxels": Flat(3, nn.Softmax(1), True), "sigmoid": Flat(2, nn.Sigmoid()),
           "sigmoid of voxels": Flat(1, nn.Sigmoid(), True), "one channel": Flat(1, nn.Identity(), True)}

MODULES = {"levels": Levels, "gates": Gates, "regression": Regression}


def own_export(module, x, path):
    halomesh.export_onnx(module, x, path)


def default_export(module, x, path):
    torch.onnx.export(module.eval(), (x,), path, dynamo=True, verbose=False)


def legacy_export(module, x, path):
    torch.onnx.export(module.eval(), (x,), path, dynamo=False, training=torch.onnx.TrainingMode.PRESERVE,
                      do_constant_folding=False, opset_version=17)


EXPORTERS = {"own": own_export, "default": default_export, "legacy": legacy_export}


def module_named(name):
    torch.manual_seed(7)
    module = MODULES[name]()
    with torch.no_grad():  # nothing stays at a value that hides a mistake
        for key, value in module.state_dict().items():
            if value.is_floating_point() and value.dim() == 1:
                value += 0.1 * torch.rand_like(value)
    return module


def outputs_of(module, x):
    with torch.no_grad():
        y = module(x)
    return [each.numpy() for each in (y if isinstance(y, tuple) else (y,))]


def quiet(action, *arguments):
    """Exporters write about their progress to standard output."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        return action(*arguments)
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(nowhere)
        os.close(kept)


class OwnNetworks(Scene):
    def program(self, ranks, *words):
        done = command(*words, program=(*LAUNCHER, "-n", str(ranks), PROGRAM), cwd=self.directory)
        self.assertEqual(done.code, 0, done.out + done.err)
        return done.out

    def predicted(self, ranks, parts, outputs, *words):
        out = self.directory / "y.npy"
        self.program(ranks, "predict", "--data", self.directory / "x.npy", "--out", out, "--parts", parts, *words)
        return [numpy.load(out if k == 0 else self.directory / f"y.{k}.npy") for k in range(outputs)]

    def assert_equal_arrays(self, found, expected, bound=1e-5):
        for a, b in zip(found, expected, strict=True):
            self.assertEqual(a.size, b.size)
            self.assertGreater(b.size, 0)
            self.assertLess(numpy.abs(a.reshape(b.shape) - b).max(), bound * numpy.abs(b).max())

    def runtime(self, path, x):
        """The outputs of ONNX Runtime for a file that the checker accepts."""
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: x})

    def exported(self, name, exporter, samples=2, module=None):
        module, x = module or module_named(name), torch.randn(samples, 1, *EXTENTS, generator=torch.Generator().manual_seed(3))
        path = self.directory / "net.onnx"
        state = {key: value.clone() for key, value in module.state_dict().items()}
        quiet(EXPORTERS[exporter], module, x, str(path))
        module.load_state_dict(state)
        numpy.save(self.directory / "x.npy", x.numpy())
        return module, x, path

    def test_outputs_are_those_of_pytorch(self):
        for name in MODULES:
            for exporter in EXPORTERS:
                if (name, exporter) == ("gates", "legacy"):
                    continue  # it cannot write dropout of channels
                with self.subTest(network=name, exporter=exporter):
                    module, x, path = self.exported(name, exporter)
                    expected = outputs_of(module.eval(), x)
                    for ranks, parts in ((1, "1x1x1"), (4, "2x2x1")):
                        self.assert_equal_arrays(self.predicted(ranks, parts, len(expected), "--network", path), expected)
                    if exporter != "default":  # which folds batch norms
                        for part in module.modules():
                            if isinstance(part, (nn.Dropout, nn.Dropout3d)):
                                part.p = 0
                        self.assert_equal_arrays(
                            self.predicted(2, "1x2x1", len(expected), "--network", path, "--mode", "train"),
                            outputs_of(module.train(), x))

    def test_probabilities_are_written_as_they_are(self):
        for name, module in ENDINGS.items():
            with self.subTest(network=name):
                module, x, path = self.exported(name, "own", module=module)
                for parts in ("1x1x1", "2x1x1"):
                    self.assert_equal_arrays(self.predicted(2, parts, 1, "--network", path), outputs_of(module.eval(), x))
                    self.assertIn("memory", self.program(1, "plan", "--network", path, "--parts", parts))

    def classes_for(self, x, targets):
        """A data set of arrays with these targets."""
        for split in ("train", "validation"):
            (self.directory / "data" / split).mkdir(parents=True, exist_ok=True)
            numpy.save(self.directory / "data" / split / "x.npy", x[:, 0])
            numpy.savetxt(self.directory / "data" / split / "targets.txt", targets, "%d")

    def losses(self, ranks, parts, path, *words):
        out = self.directory / f"{path.stem}-{parts}-{words[-1]}"
        self.program(ranks, "train", "--network", path, "--data", self.directory / "data", "--targets-from", "targets.txt",
                     "--out", out, "--parts", parts, "--batch", 4, "--epochs", 5, "--optimizer", "sgd", "--momentum", 0.5,
                     "--lr", 0.05, "--schedule", "constant", "--warmup-epochs", 0, "--weight-decay", 0, *words)
        return halomesh.Run(out).steps["loss"].tolist()

    def test_classes_of_samples_are_learned_as_by_pytorch(self):
        for loss, name, targets in (("ce", "softmax", [[0], [2], [1], [2]]), ("bce", "sigmoid", [[0, 1], [1, 1], [0, 0], [1, 0]])):
            with self.subTest(loss=loss):
                module, x, path = self.exported(name, "own", samples=4, module=ENDINGS[name])
                self.classes_for(x.numpy(), targets)
                whole = self.losses(1, "1x1x1", path, "--loss", loss)
                cut = self.losses(2, "2x1x1", path, "--loss", loss)
                truth = torch.tensor(targets, dtype=torch.float64 if loss == "bce" else torch.int64)
                judge = nn.BCEWithLogitsLoss() if loss == "bce" else lambda y, t: nn.functional.cross_entropy(y, t[:, 0])
                module, peer = copy.deepcopy(module).double(), []
                module.ending = nn.Identity()
                optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.5)
                for _ in whole:
                    value = judge(module(x.double()), truth)
                    optimizer.zero_grad()
                    value.backward()
                    optimizer.step()
                    peer.append(value.item())
                self.assertEqual(len(whole), 5)
                self.assertLess(whole[-1], 0.9 * whole[0])
                numpy.testing.assert_allclose(whole, peer, rtol=1e-5)
                numpy.testing.assert_allclose(cut, whole, rtol=1e-5)

    def test_one_channel_learns_a_class_of_voxels(self):
        module, x, path = self.exported("sigmoid of voxels", "own", module=ENDINGS["sigmoid of voxels"])
        labels = (x[:, 0] + x[:, 0].roll(1, 1) > 1).numpy().astype("u1")
        for split in ("train", "validation"):
            (self.directory / "data" / split).mkdir(parents=True)
            with h5py.File(self.directory / "data" / split / "samples.h5", "w") as file:
                file["x"], file["labels"] = x.numpy()[:, 0], labels
        words = ("train", "--network", path, "--data", self.directory / "data", "--batch", 2, "--epochs", 3, "--lr", 0.05)
        curves = []
        for parts in ("1x1x1", "2x1x1"):
            out = self.directory / f"run-{parts}"
            self.program(2 if parts == "2x1x1" else 1, *words, "--out", out, "--parts", parts, "--loss", "ce")
            curves.append(halomesh.Run(out).steps["loss"])
        first = nn.functional.binary_cross_entropy(module(x)[:, 0], torch.tensor(labels, dtype=torch.float32)).item()
        self.assertAlmostEqual(curves[0][0], first, delta=1e-5 * first)
        self.assertLess(curves[0][-1], curves[0][0])
        numpy.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)

    def test_arrays_that_do_not_fit_are_told_with_the_cure(self):
        _, x, path = self.exported("softmax", "own", module=ENDINGS["softmax"])
        made = "give an array that numpy.save wrote, float32 of the shape (samples, channels, depth, height, width)"
        arrays = {"text.npy": (b"1 2 3\n", "no header", made), "double.npy": (x.numpy().astype("f8"), "float32", made),
                  "four.npy": (x.numpy()[0], "has 4 axes instead of 5", made),
                  "wide.npy": (numpy.repeat(x.numpy(), 2, 1), "reads samples of 1 channel, not of 2", "16x16x16x1"),
                  "small.npy": (x.numpy()[..., :12], "for samples of 16x16x12x1 instead of 16x16x16x1", "16x16x16x1"),
                  "directory": (None, "is a directory", made)}
        for name, (content, what, cure) in arrays.items():
            with self.subTest(array=name):
                if isinstance(content, bytes):
                    self.put(name, content)
                elif content is None:
                    (self.directory / name).mkdir()
                else:
                    numpy.save(self.directory / name, content)
                done = command("predict", "--network", path, "--data", self.directory / name, "--out", "y.npy",
                               program=(PROGRAM,), cwd=self.directory)
                self.assertNotEqual(done.code, 0)
                self.assertIn(what, done.err)
                self.assertIn(cure, done.err.split("hint: ")[1])
        done = command("predict", "--data", self.directory / "x.npy", "--out", "y.npy", program=(PROGRAM,), cwd=self.directory)
        self.assertIn("--checkpoint is missing", done.err)

    def test_parameters_keep_their_names(self):
        for name in MODULES:
            with self.subTest(network=name):
                module, _, path = self.exported(name, "own")
                stored = {tensor.name for tensor in onnx.load(path).graph.initializer}
                self.assertEqual(set(dict(module.named_parameters())) - stored, set())

    def test_trained_networks_return_to_pytorch(self):
        self.program(1, "synth", "--kind", "volumes", "--input", "16x16x16x1", "--train", "4", "--validation", "2",
                     "--out", self.directory / "data")
        for name, more in (("levels", ("--output-weights", "1,0.5")), ("gates", ())):
            with self.subTest(network=name):
                module, x, path = self.exported(name, "own", samples=1)
                run_directory, trained = self.directory / f"run-{name}", self.directory / "trained.onnx"
                self.program(2, "train", "--network", path, "--data", self.directory / "data", "--out", run_directory,
                             "--parts", "2x1x1", "--batch", "2", "--epochs", "2", "--lr", "0.01", *more)
                os.remove(path)
                self.program(1, "export", "onnx", "--checkpoint", run_directory, "--out", trained)
                with self.assertRaisesRegex(ValueError, "into the module that was exported"):
                    halomesh.torch_module(run_directory)
                tensors = halomesh.state_dict(run_directory)
                named = {*dict(module.named_parameters()), *(key for key in module.state_dict() if "running" in key)}
                self.assertEqual(named - set(tensors), set())
                before = {key: value.clone() for key, value in module.state_dict().items()}
                state = {key: tensors.get(key, value) for key, value in before.items()}
                module.load_state_dict(state)
                self.assertGreater(sum(not torch.equal(state[key], before[key]) for key in before), len(before) / 2)
                expected = outputs_of(module.eval(), x)
                self.assert_equal_arrays(self.predicted(2, "1x2x1", len(expected), "--checkpoint", run_directory), expected)
                if name != "gates":  # of which ONNX Runtime would draw the random numbers
                    self.assert_equal_arrays(self.runtime(trained, x.numpy()), expected)

    def test_built_in_networks_are_written(self):
        networks = {
            "cosmoflow": ({"extent": "32", "train": "4", "validation": "2"},
                          {"input": "32x32x32x4", "conv-layers": "3", "filters": "4", "fc": "8", "parts": "2x1x1"}),
            "unet3d": ({"kind": "volumes", "input": "16x16x16x1", "train": "4", "validation": "2"},
                       {"input": "16x16x16x1", "levels": "3", "filters": "4", "parts": "2x1x1"}),
            "deepcam": ({"kind": "climate", "input": "48x1x32x16", "train": "4", "validation": "2"},
                        {"input": "48x1x32x16", "parts": "2x1x1", "filters": "2", "middle-blocks": "1"})}
        for name, (synth, options) in networks.items():
            with self.subTest(network=name):
                words = lambda given: [word for key, value in given.items() for word in (f"--{key}", value)]
                data, run_directory, path = (self.directory / f"{what}-{name}" for what in ("data", "run", "net.onnx"))
                self.program(1, "synth", *words(synth), "--out", data)
                self.program(2, "train", "--model", name, *words(options), "--data", data, "--out", run_directory,
                             "--batch", "2", "--epochs", "1", "--lr", "0.001")
                self.program(1, "export", "onnx", "--checkpoint", run_directory, "--out", path)
                *extents, channels = (int(number) for number in options["input"].split("x"))
                x = numpy.random.default_rng(1).integers(0, 9, (2, channels, *extents)).astype("float32")
                numpy.save(self.directory / "x.npy", x)
                expected = self.predicted(2, options["parts"], 1, "--checkpoint", run_directory)
                self.assert_equal_arrays(self.runtime(path, x), expected)
                self.assert_equal_arrays(self.predicted(2, options["parts"], 1, "--network", path), expected)

    def test_reference_networks_are_written_again(self):
        directory = os.environ.get("HALOMESH_NETWORKS")
        if directory is None:
            self.skipTest("HALOMESH_NETWORKS names no directory of reference networks")
        networks = sorted(path.parent for path in pathlib.Path(directory).glob("*/reference.npz"))
        self.assertGreater(len(networks), 0)
        for network in networks:
            with self.subTest(network=network.name):
                reference = numpy.load(network / "reference.npz")
                numpy.save(self.directory / "x.npy", reference["x"])
                again = self.directory / f"{network.name}.onnx"
                self.program(1, "export", "onnx", "--network", network / "net.onnx", "--out", again)
                outputs = sum(key.startswith("y") and key[1:].isdigit() for key in reference.files)
                nodes = onnx.load(again).graph.node
                trains = any(a.name == "training_mode" and a.i for node in nodes for a in node.attribute)
                words = ("--mode", "train" if trains else "eval", "--network")
                found = self.predicted(1, "1x1x1", outputs, *words, again)
                self.assert_equal_arrays(found, self.predicted(4, "2x2x1", outputs, *words, network / "net.onnx"))
                if any(node.op_type in ("RandomUniformLike", "Dropout") for node in nodes):
                    continue  # ONNX Runtime would draw random numbers
                try:
                    self.assert_equal_arrays(found, self.runtime(again, reference["x"]))
                except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
                    # Biases of a wrong shape, which an exporter wrote, are not run by others.
                    self.assertIn("bias", str(error).lower())


if __name__ == "__main__":
    sys.exit(run())
