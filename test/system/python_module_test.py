#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a small real run of halomesh with the package python/halomesh, and compares its PyTorch module with
`halomesh predict`.

Counts cases as skipped, and says why, where NumPy, h5py or PyTorch is missing. Environment: HALOMESH
(the program), HALOMESH_SOURCE (the source tree), MPIRUN (launcher with its flags).
"""
import gzip
import json
import math
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("HALOMESH_SOURCE", pathlib.Path(__file__).parents[2]))
KERNELS = (2, 3, 4)
STANDARDIZED = 4  # the kernel of the network with a standardized input
CASES = ("records of a run", "records of any run", "checkpoints", "removed checkpoints",
         "bench", "traces")
# Options of the other networks; axes of one plane are kept as they are.
NETWORKS = {
    "unet3d": "--input 32x16x24x1 --levels 3 --filters 4 --most-filters 12",
    "unet3d of images": "--input 32x1x48x16 --levels 3 --filters 4",
    "unet3d with pooling": "--input 16x16x24x1 --levels 3 --filters 4 --down pool --batch-norm 2",
    "deepcam": "--input 304x1x32x16 --filters 4 --middle-blocks 2"}
TORCH_CASES = (*(f"PyTorch module, kernel {kernel}" for kernel in KERNELS),
               *(f"PyTorch module, {name}" for name in NETWORKS))

try:
    import h5py
    import numpy
    sys.path.insert(0, str(SOURCE / "python"))
    import halomesh
    from halomesh import arrays
except ImportError as missing:
    if missing.name == "halomesh":
        raise
    print(f"skipped: {missing}; make deps installs it\n"
          f"0 passed, 0 failed, {len(CASES) + len(TORCH_CASES)} skipped")
    sys.exit(0)
try:
    import torch
except ImportError as missing:
    torch = None
    print(f"skipped: {missing}; make test TORCH=1 installs it")

# Three extents, and more than one voxel in the last tensor: an axis that is swapped is seen.
EXTENTS, CHANNELS, TARGETS = (24, 16, 11), 4, 3
FILTERS, CONV_LAYERS, HIDDEN, TRAIN, VALIDATION, STEPS = 4, 2, (16, 8), 6, 3, 9


def program(ranks, *arguments):
    command = [os.environ.get("HALOMESH", "build/halomesh"), *map(str, arguments)]
    command = [*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", str(ranks), *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


def model_options(kernel):
    return shlex.split(f"--input {'x'.join(map(str, EXTENTS))}x{CHANNELS} --kernel {kernel}"
                       f" --conv-layers {CONV_LAYERS} --filters {FILTERS}"
                       f" --fc {','.join(map(str, HIDDEN))} --targets {TARGETS}")


def make_data(directory):
    """Random samples in HDF5 files; returns the counts of the validation set (n, d, h, w, c)."""
    random = numpy.random.RandomState(1)
    for split, count in (("train", TRAIN), ("validation", VALIDATION)):
        counts = random.poisson((3.0, 2.0, 5.0, 1.0), (count, *EXTENTS, CHANNELS)).astype("i2")
        (directory / split).mkdir(parents=True)
        for i in range(count):
            with h5py.File(directory / split / f"{i}.hdf5", "w") as file:
                file["x"] = counts[i]
                file["y"] = random.uniform(-1, 1, TARGETS).astype("f4")
    return counts


def train(base, kernel):
    out = base / f"run{kernel}"
    program(2, "train", "--data", base / "data", "--out", out, "--parts", "2x1x1", "--batch", 2,
            "--epochs", 3, "--seed", 5, "--lr", 0.002, "--schedule", "constant", "--warmup-epochs", 0,
            "--standardize", "on" if kernel == STANDARDIZED else "off",
            "--average", "on" if kernel == STANDARDIZED else "off",
            "--batch-norm", 2 if kernel == STANDARDIZED else 0, *model_options(kernel))
    return out


def check_run(base):
    run = halomesh.Run(base / "run2")
    lines = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    evaluations = [line for line in lines if line["event"] == "eval"]
    assert len(steps) == STEPS and len(evaluations) == 3 and run.damaged == 0
    for table, of_file in ((run.steps, steps), (run.evaluations, evaluations)):
        assert table.shape == (len(of_file),)
        for name in table.dtype.names:
            if name in of_file[0]:
                assert table[name].tolist() == [line[name] for line in of_file], name
    assert run.steps["step"].tolist() == list(range(1, STEPS + 1))
    assert run.steps["loss"].dtype == numpy.float64
    assert run.options["batch"] == "2" and run.record["mesh"]["ranks"] == 2
    assert numpy.array_equal(run.samples_per_second, 2 / run.steps["seconds"])
    # Each step is in one line of each kind, and the phases of layers add up to the steps.
    assert sum(line["steps"] for line in run.phase_lines) == STEPS
    spans = {row["step"]: row["steps"] for row in run.phases}
    assert sum(spans.values()) == STEPS
    assert math.isclose(sum(run.phases["steps"] * run.phases["mean"]), rel_tol=1e-3,
                        b=sum(line["steps"] * line["step_seconds"]["mean"] for line in run.phase_lines))
    assert run.checkpoints()[-1].name == f"step-{STEPS:09d}.h5"


def check_records(base):
    """Lines that a real run of this size does not have: all kinds, damaged ones, a partial one."""
    directory = base / "made"
    directory.mkdir()
    rows = [{"phase": "halo wait", "layer": "conv1", "kind": "halo wait", "mean": 0.25, "min": 0.125,
             "max": 0.5, "max_rank": 3, "received_bytes": 64.0},
            {"phase": "optimizer", "layer": "", "kind": "optimizer", "mean": 1.5, "min": 1.0,
             "max": 2.0, "max_rank": 0, "received_bytes": 0.0}]
    lines = [{"event": "stage", "seconds": 2.0, "samples": 16},
             {"event": "step", "time": 9.5, "step": 1, "epoch": 0, "loss": None, "lr": 0.5,
              "seconds": 0.25},
             {"event": "step", "step": 2, "epoch": 0, "loss": 0.5, "lr": 0.5, "seconds": 0.25},
             {"event": "phases", "time": 10.0, "epoch": 0, "step": 1, "rows": rows[:1]},  # as once
             {"event": "layers", "time": 10.0, "epoch": 0, "step": 2, "steps": 1, "rows": rows[1:]},
             {"event": "unknown"}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "metrics.jsonl").write_text(text + 'damaged\n{"event":"step","step":3')
    run = halomesh.Run(directory)
    assert run.damaged == 1 and run.record == {} and len(run.evaluations) == 0
    assert run.stage["samples"] == 16
    assert run.steps["step"].tolist() == [1, 2]
    assert run.steps["time"][0] == 9.5 and math.isnan(run.steps["time"][1])
    assert math.isnan(run.steps["loss"][0]) and run.steps["loss"][1] == 0.5
    assert run.phases.shape == (2,) and run.phases["step"].tolist() == [1, 2]
    assert run.phases["steps"].tolist() == [-1, 1]
    for row, expected in zip(run.phases, rows):
        assert all(row[name] == value for name, value in expected.items())
    for name, read in (("run.json", halomesh.Run), ("bench.json", lambda made: halomesh.bench(made / "bench.json"))):
        for content in ("{", "[]", ""):
            (directory / name).write_text(content)
            try:
                read(directory)
            except ValueError as error:
                assert str(directory / name) in str(error), error
            else:
                raise AssertionError(f"a damaged {name} was read")
    try:
        halomesh.Run(base)
    except FileNotFoundError as error:
        assert "run.json" in str(error)
    else:
        raise AssertionError("a directory without a run was read")


def check_checkpoint(base):
    path = base / "run2" / "checkpoints" / f"step-{STEPS:09d}.h5"
    arrays = halomesh.load_checkpoint(base / "run2")
    layers = ["conv1", "conv2", "fc1", "fc2", "fc3"]
    assert list(arrays) == [f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")]
    assert arrays["conv2.weight"].shape == (2 * FILTERS, FILTERS, 2, 2, 2)
    assert arrays["fc1.weight"].shape == (HIDDEN[0], 2 * FILTERS * 6 * 4 * 2)
    velocities, compared = halomesh.load_checkpoint(path, "optimizer"), 0
    with h5py.File(path, "r") as file:
        for tree, found in (("parameters", arrays), ("optimizer", velocities)):
            for name, array in found.items():
                assert array.dtype == numpy.float32
                assert numpy.array_equal(array, file[f"{tree}/{name.replace('.', '/')}"][()]), name
                compared += array.size
    assert compared > 1000 and numpy.abs(velocities["fc1.weight"]).max() > 0
    assert halomesh.checkpoint_options(path)["fc"] == "16,8"


def check_removed_checkpoint(base):
    """The newest checkpoint of a run in progress that is removed before it is opened."""
    checkpoints = base / "race" / "checkpoints"
    checkpoints.mkdir(parents=True)
    for step in (1, 2):
        shutil.copy(base / "run2" / "checkpoints" / f"step-{STEPS:09d}.h5", checkpoints / f"step-{step:09d}.h5")
    chosen = arrays._checkpoint_file

    def removed_at_first(path):
        file = chosen(path)
        if file.name == "step-000000002.h5":
            file.unlink()
        return file
    arrays._checkpoint_file = removed_at_first
    try:
        assert halomesh.checkpoint_options(base / "race")["fc"] == "16,8"
    finally:
        arrays._checkpoint_file = chosen
    for path in (base / "race" / "checkpoints" / "step-000000002.h5", base / "none.h5"):
        try:
            halomesh.load_checkpoint(path)
        except OSError:
            continue
        raise AssertionError(f"{path} was read")


def check_bench(base):
    path = base / "bench.json"
    program(2, "bench", "--parts", "2x1x1", "--steps", 2, "--warm-up", 0, "--json", path,
            *model_options(2))
    record, raw = halomesh.bench(path), json.loads(path.read_text())
    run, phases = record["runs"][0], raw["runs"][0]["phases"]
    assert run["phases"].shape == (len(phases),) and len(phases) > 10
    for row, expected in zip(run["phases"], phases):
        assert set(row.dtype.names) == set(expected)
        assert all(row[name] == value for name, value in expected.items())
    assert math.isclose(run["phases"]["seconds_mean_over_ranks"].sum(), run["mean_step_seconds"])
    assert run["network"] == raw["runs"][0]["network"]


def check_trace(base):
    events = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "compute"}},
              {"ph": "X", "name": "forward", "cat": "compute", "ts": 1.5, "dur": 2.25, "pid": 1,
               "tid": 0, "args": {"layer": "conv1", "step": 7}},
              {"ph": "C", "name": "memory", "pid": 1, "ts": 2, "args": {"bytes": 5}},
              {"ph": "X", "name": "step", "ts": 0, "dur": 9, "pid": 0, "tid": 0}]
    text = json.dumps({"otherData": {"ranks": 2}, "traceEvents": events}).encode()
    # Each rank compresses its own piece: several members in one file.
    (base / "a.json.gz").write_bytes(gzip.compress(text[:40]) + gzip.compress(text[40:]))
    (base / "b.json").write_text(json.dumps(events))
    for name, metadata in (("a.json.gz", {"ranks": 2}), ("b.json", {})):
        trace = halomesh.trace(base / name)
        assert trace.metadata == metadata and trace.events == events
        assert trace.tracks == {(1, 0): "compute"}
        assert trace.slices.tolist() == [(1, 0, "forward", "compute", "conv1", 7, 1.5, 2.25),
                                         (0, 0, "step", "", "", -1, 0.0, 9.0)]


def check_torch(base, kernel, counts):
    net, file = halomesh.torch_module(base / f"run{kernel}"), base / f"predictions{kernel}.csv"
    arrays = 5 * 2 + (2 * 4 if kernel == STANDARDIZED else 0)
    assert not net.training and len(halomesh.state_dict(base / f"run{kernel}")) == arrays
    program(2, "predict", "--checkpoint", base / f"run{kernel}", "--data", base / "data", "--out",
            file)
    table = numpy.genfromtxt(file, delimiter=",", names=True)
    expected = numpy.stack([table[f"predicted_{t}"] for t in range(TARGETS)], axis=1)
    x = torch.from_numpy(counts.astype("f8")).permute(0, 4, 1, 2, 3)
    with torch.no_grad():
        output = net.double()(x).numpy()
    assert output.shape == expected.shape == (VALIDATION, TARGETS)
    assert expected.std(axis=0).min() > 1e-3, "predictions that are all alike show nothing"
    assert_close(f"kernel {kernel}", output, expected)


def assert_close(name, output, expected):
    """fp32 against fp64, whose errors are some roundings (2^-24) of the largest output."""
    error = numpy.abs(output - expected).max() / numpy.abs(expected).max()
    print(f"{name}: {expected.size} values, largest error {error:.3g}")
    assert error < 1e-5


def check_network(base, name):
    """Predictions after a few steps, which move the averages of batch norms away from 0 and 1."""
    words, base, random = NETWORKS[name].split(), base / name.replace(" ", "-"), numpy.random.RandomState(3)
    *extents, channels = map(int, words[1].split("x"))
    program(1, "synth", "--kind", "volumes" if channels == 1 else "climate", *words[:2], "--train", 4, "--validation", 2,
            "--out", base / "data")
    program(2, "train", "--model", name.split()[0], *words, "--parts", "2x1x1", "--data", base / "data", "--out",
            base / "run", "--batch", 2, "--epochs", 3, "--lr", 0.01)
    x = random.standard_normal((3, channels, *extents)).astype("f4")
    numpy.save(base / "x.npy", x)
    program(2, "predict", "--checkpoint", base / "run", "--parts", "2x1x1", "--data", base / "x.npy", "--out",
            base / "y.npy")
    net, expected = halomesh.torch_module(base / "run"), numpy.load(base / "y.npy")
    assert not net.training and set(net.state_dict()) == set(halomesh.state_dict(base / "run"))
    with torch.no_grad():
        output = net.double()(torch.from_numpy(x.astype("f8"))).numpy()
    assert output.shape == expected.shape and expected.std() > 1e-3
    assert_close(name, output, expected)


def main():
    with tempfile.TemporaryDirectory(prefix="halomesh-python-") as name:
        base, good = pathlib.Path(name), []
        counts = make_data(base / "data")
        for kernel in KERNELS:
            train(base, kernel)
        cases = [(case, check, (base,)) for case, check in
                 zip(CASES, (check_run, check_records, check_checkpoint, check_removed_checkpoint,
                            check_bench, check_trace))]
        if torch is not None:
            torch.set_num_threads(1)
            cases += [(case, check_torch, (base, kernel, counts))
                      for case, kernel in zip(TORCH_CASES, KERNELS)]
            cases += [(case, check_network, (base, name))
                      for case, name in zip(TORCH_CASES[len(KERNELS):], NETWORKS)]
        for case, check, arguments in cases:
            try:
                check(*arguments)
                good.append(True)
            except AssertionError:
                import traceback
                traceback.print_exc()
                good.append(False)
            print(f"{'ok  ' if good[-1] else 'FAIL'} {case}", flush=True)
    skipped = 0 if torch is not None else len(TORCH_CASES)
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, {skipped} skipped")
    return 0 if all(good) and len(good) + skipped == len(CASES) + len(TORCH_CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
