#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs from ONNX files against onnxruntime: random ones, on whole and cut samples, and the cases
of the ONNX backend's own tests.

Usage: onnx_graphs_test.py [GRAPHS [FIRST]], by default a dozen graphs from seed 0 on. With 100 graphs
and more, all cases of the backend are run; with fewer, those of five axes and each sixteenth of the others.
Optional: counts its cases as skipped where onnx and onnxruntime are missing.
"""
import collections
import os
import pathlib
import re
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import PROGRAM, SOURCE, Scene, command, run  # noqa: E402

VENV = SOURCE / "build" / "onnx" / "bin" / "python"
try:
    import numpy
    from onnx_backend_cases import LeftOut, backend_cases
    from onnx import helper, numpy_helper
    from onnx_graphs import graphs, model_of
except ImportError as missing:
    if VENV.exists() and not sys.executable.startswith(str(VENV.parent)):
        os.execv(VENV, [str(VENV), *sys.argv])
    print(f"skipped: {missing}; make deps ONNX=1 installs it\n0 passed, 0 failed, 6 skipped")
    sys.exit(0)

GRAPHS, FIRST = (int(word) for word in (sys.argv[1:] + ["12", "0"][len(sys.argv) - 1:]))
IN_A_FILE, TOLERANCE = 6, 1e-5

# Cases that the program must refuse, by what their names contain, and why.
REFUSED = {
    "(add|sub|mul|div)_bcast": "a constant along one axis of space",
    "^test_pow(_example|_bcast_array|_types_float32.*)?$": "an exponent of each element",
    "prelu_(example|broadcast)": "slopes of elements, or along an axis of space",
    "PReLU_.d_multiparam": "slopes as before opset 7",
    "clip_min_greater_than_max": "an empty interval",
    "gemm_(alpha|beta|all_attributes|transposeA|default_(scalar|single_elem_vector|matrix)_bias)":
        "no layer of torch writes it",
    "resize.*cubic|resize.*antialias": "cubic and antialiased interpolation",
    "resize_tf_crop": "regions of interest",
    "not_(larger|smaller)$": "extents that keep an aspect ratio",
    "half_pixel_symmetric": "coordinates of another framework",
    "l1normalization": "the sum of absolute values",
    "slice_start_out_of_bounds": "an empty tensor",
    "slice_neg_steps": "a slice with steps",
    "MaxPool2d_stride_padding_dilation": "a window of more than 255 elements"}
# Of the first, onnxruntime and torch differ as the program does.
DIFFERENT = {"test_resize_downsample_scales_linear_align_corners":
             "the case divides by an extent that is no whole number",
             "test_training_dropout": "random numbers", "test_training_dropout_default": "random numbers"}
# Expected values that are written with few digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 2e-4}


class Graphs(Scene):
    def compare(self, ranks, parts):
        """Runs all graphs on this mesh, several in each file, and lists those that differ."""
        wrong = []
        for first in range(FIRST, FIRST + GRAPHS, IN_A_FILE):
            seeds = list(range(first, min(first + IN_A_FILE, FIRST + GRAPHS)))
            model, x, grown = graphs(seeds)
            (self.directory / "net.onnx").write_bytes(model.SerializeToString())
            numpy.save(self.directory / "x.npy", x)
            done = command(
                "-n", ranks, PROGRAM, "predict", "--network", self.directory / "net.onnx", "--parts", parts,
                "--data", self.directory / "x.npy", "--out", self.directory / "y.npy",
                program=shlex.split(os.environ.get("MPIRUN", "mpirun")))
            if done.code != 0:
                wrong.append(f"seeds {seeds}: {done.err}{done.out}")
                continue
            for i, graph in enumerate(grown):
                y = numpy.load(self.directory / (f"y.{i}.npy" if i else "y.npy"))
                expected = graph.values[graph.last]
                error = numpy.abs(y.reshape(expected.shape) - expected).max() / numpy.abs(expected).max() \
                    if y.size == expected.size else numpy.inf
                if not error <= TOLERANCE:
                    wrong.append(f"seed {graph.prefix}: off by {error:.2g} of the largest value of "
                                 f"{expected.shape}, opset {graph.opset}:\n  " + "\n  ".join(graph.described()))
        self.assertEqual(len(wrong), 0, "\n" + "\n".join(wrong))

    def test_whole_samples(self):
        self.compare(1, "1x1x1")

    def test_two_parts(self):
        self.compare(2, "2x1x1")

    def test_four_parts(self):
        self.compare(4, "2x2x1")

    def test_six_parts(self):
        self.compare(6, "3x2x1")


class Numbers(Scene):
    def test_a_number_is_no_parameter_of_a_single_channel(self):
        numbers = {"weight": numpy.ones((1, 1, 3, 3, 3), "f4"), "one": numpy.float32(1), "half": numpy.float32(0.5)}
        model = model_of([helper.make_node("Conv", ["x", "weight"], ["a"]), helper.make_node("Mul", ["a", "one"], ["b"]),
                          helper.make_node("Elu", ["b"], ["c"]), helper.make_node("Add", ["c", "half"], ["y"])],
                         [numpy_helper.from_array(numpy.asarray(value), name) for name, value in numbers.items()],
                         [("x", (1, 1, 6, 5, 7))], [("y", (1, 1, 4, 3, 5))], 20)
        path = self.put("net.onnx", model.SerializeToString())
        self.assertIn("\n27 parameters", command("info", path, program=[PROGRAM]).out)


class Backend(Scene):
    def predicted(self, model, x):
        """The output for x, or None and why there is none."""
        (self.directory / "net.onnx").write_bytes(model.SerializeToString())
        numpy.save(self.directory / "x.npy", x)
        out = self.directory / "y.npy"
        out.unlink(missing_ok=True)
        done = command("predict", "--network", self.directory / "net.onnx", "--data",
                       self.directory / "x.npy", "--out", out, program=[PROGRAM])
        return (numpy.load(out), "") if done.code == 0 else (None, done.err)

    def verdict(self, name, case):
        """Why the case is wrong; empty if it is right."""
        y, why = self.predicted(*case.lift())
        refused = [reason for pattern, reason in REFUSED.items() if re.search(pattern, name)]
        if refused or y is None:
            return "" if refused and "not supported" in why else why or "it should be refused"
        expected = case.expected
        if y.size != expected.size:
            return f"{y.shape} instead of {expected.shape}"
        error = numpy.abs(y.reshape(expected.shape) - expected).max()
        return "" if error <= ROUNDED.get(name, TOLERANCE) * numpy.abs(expected).max() else f"off by {error}"

    def test_the_cases_of_the_backend(self):
        table = "".join(path.read_text() for path in (SOURCE / "models" / "onnx").glob("*_operators.cpp"))
        supported = set(re.findall(r'^ *(?:return )?\{+"(\w+)", ', table, re.MULTILINE))
        right, left, wrong = collections.Counter(), collections.Counter(), []
        for number, (name, case) in enumerate(backend_cases().items()):
            try:
                if not {node.op_type for node in case.nodes} <= supported:
                    raise LeftOut("operators that are not supported")
                if name in DIFFERENT:
                    raise LeftOut(DIFFERENT[name])
                if GRAPHS < 100 and case.axes() != 5 and number % 16:
                    continue
                why = self.verdict(name, case)
                if why:
                    wrong.append(f"{name}: {why}")
                elif any(re.search(pattern, name) for pattern in REFUSED):
                    left["refused: " + next(r for p, r in REFUSED.items() if re.search(p, name))] += 1
                else:
                    right["of five axes" if case.axes() == 5 else "with axes added"] += 1
            except LeftOut as reason:
                left[str(reason)] += 1
        print(f"\n  right: {dict(right)}\n  left out:", *(f"{n} {why}" for why, n in left.items()),
              sep="\n    ")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    sys.exit(run())
