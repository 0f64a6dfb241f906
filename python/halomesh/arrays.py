# SPDX-License-Identifier: Apache-2.0
"""The records of runs, checkpoints, traces and measurements as NumPy arrays and PyTorch modules."""
import array
import functools
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy

from halomesh import records

__all__ = ["Run", "Trace", "bench", "checkpoint_options", "load_checkpoint", "state_dict",
           "torch_module", "trace"]

_INT, _REAL, _TEXT = "i8", "f8", "U"
_STEP = {"step": _INT, "epoch": _INT, "loss": _REAL, "lr": _REAL, "seconds": _REAL, "time": _REAL}
_EVALUATION = {"epoch": _INT, "mae": _REAL, "dice": _REAL, "iou": _REAL, "accuracy": _REAL,
               "balanced_accuracy": _REAL, "auc": _REAL, "loss": _REAL, "samples": _INT, "seconds": _REAL, "time": _REAL}
_PHASE = {"step": _INT, "epoch": _INT, "steps": _INT, "phase": _TEXT, "layer": _TEXT, "kind": _TEXT,
          "mean": _REAL, "min": _REAL, "max": _REAL, "max_rank": _INT, "received_bytes": _REAL}
_BENCH_PHASE = {"layer": _TEXT, "phase": _TEXT, "kind": _TEXT, "seconds_mean_over_ranks": _REAL,
                "seconds_max_over_ranks": _REAL, "flops": _REAL, "memory_bytes": _REAL,
                "received_bytes": _REAL, "flops_per_second": _REAL, "peak_fraction": _REAL,
                "roof_fraction": _REAL}
_SLICE = {"rank": _INT, "track": _INT, "name": _TEXT, "category": _TEXT, "layer": _TEXT,
          "step": _INT, "begin_us": _REAL, "duration_us": _REAL}


class _Columns:
    """Rows as columns of numbers, so that a million of them take little memory.

    What a row does not have is -1, NaN or the empty text.
    """

    def __init__(self, fields):
        self._fields = fields
        self._columns = {name: [] if kind == _TEXT else array.array({_INT: "q", _REAL: "d"}[kind])
                         for name, kind in fields.items()}

    def add(self, row):
        for name, kind in self._fields.items():
            value = row.get(name)
            if kind == _TEXT:
                value = sys.intern("" if value is None else str(value))
            elif value is None:
                value = -1 if kind == _INT else numpy.nan
            self._columns[name].append(int(value) if kind == _INT else value)

    def table(self):
        """A structured array of shape (rows,)."""
        columns = {name: numpy.array(self._columns[name], dtype=kind) if len(self._columns[name])
                   else numpy.empty(0, kind) for name, kind in self._fields.items()}
        dtype = [(name, column.dtype if column.dtype.itemsize else "U1")
                 for name, column in columns.items()]
        table = numpy.empty(len(next(iter(columns.values()))), dtype=dtype)
        for name, column in columns.items():
            table[name] = column
        return table


def _table(rows, fields):
    columns = _Columns(fields)
    for row in rows:
        columns.add(row)
    return columns.table()


def _object_in(path):
    """A file that holds a JSON object. Raises ValueError naming the file."""
    try:
        record = json.loads(pathlib.Path(path).read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}): it is damaged; give a whole copy") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path}: not a JSON object: give a file that halomesh wrote")
    return record


class Run(records.RunFiles):
    """The records of one run, as they were when this object was made.

    directory    pathlib.Path of the --out directory
    record       run.json: a dictionary, empty if there is none
    steps        structured array (steps,): step, epoch, loss, lr, seconds, time. `time` is in Unix
                 seconds, NaN in files of versions that did not record it
    evaluations  structured array (evaluations,): epoch, mae (of a regression), dice or iou (of a
                 segmentation), accuracy, balanced_accuracy and auc (of classes of samples), loss, samples, seconds, time
    phases       structured array (rows,): step, epoch, steps, phase, layer, kind, and mean, min, max
                 (seconds per step, over ranks), max_rank and received_bytes (per step). A row is about
                 `steps` steps, of one epoch or several, up to `step`
    phase_lines  a list of dictionaries, with the kinds of time and the halo, reduction, input and
                 memory figures of each epoch. Read from the file each time it is asked for
    stage        the last record of staging: a dictionary, or None
    damaged      lines of metrics.jsonl that could not be read
    """

    def __init__(self, directory):
        """Raises FileNotFoundError for a directory that holds neither run.json nor metrics.jsonl, and
        ValueError for a run.json that is damaged."""
        directory = pathlib.Path(directory)
        if not (directory / "run.json").exists() and not (directory / "metrics.jsonl").exists():
            raise FileNotFoundError(f"{directory} holds neither run.json nor metrics.jsonl: "
                                    f"{records.GIVE_RUN}")
        self._columns = {"step": _Columns(_STEP), "eval": _Columns(_EVALUATION)}
        self.stage = None
        super().__init__(directory)
        if self._run_state == "damaged":
            self.record = _object_in(directory / "run.json")
        self.steps = self._columns["step"].table()
        self.evaluations = self._columns["eval"].table()
        del self._columns

    def take(self, line):
        if line["event"] in self._columns:
            self._columns[line["event"]].add(line)
        elif line["event"] == "stage":
            self.stage = line

    def _read(self, *events):
        metrics = self.directory / "metrics.jsonl"
        if not metrics.exists():
            return
        with records.open_regular(metrics) as file:
            for line, _ in records.lines_of(file):
                entry = records.parsed(line) if line.endswith(b"\n") else None
                if isinstance(entry, dict) and entry.get("event") in events:
                    yield entry

    @property
    def phase_lines(self):
        return list(self._read("phases"))

    @functools.cached_property
    def phases(self):
        return _table(({**row, **{name: line.get(name) for name in ("step", "epoch", "steps")}}
                       for line in self._read("phases", "layers") for row in line.get("rows", [])), _PHASE)

    @property
    def options(self):
        """Every option of the run and its value, as text."""
        return self.record.get("options", {})

    @property
    def samples_per_second(self):
        """Training speed of each step, shape (steps,)."""
        return float(self.options["batch"]) / self.steps["seconds"]

    def checkpoints(self):
        """Paths of the checkpoints, oldest first."""
        return sorted((self.directory / "checkpoints").glob("step-*.h5"))

    def __repr__(self):
        return (f"<halomesh.Run {self.directory}: {len(self.steps)} steps, "
                f"{len(self.evaluations)} evaluations>")


def bench(path):
    """What `bench --json FILE` wrote: its dictionary, in which the "phases" of each of its "runs"
    are a structured array (phases,) with the fields of the file."""
    record = _object_in(path)
    for run in record["runs"]:
        run["phases"] = _table(run["phases"], _BENCH_PHASE)
    return record


class Trace:
    """A trace of `train --trace FILE`.

    metadata  what the file says of itself ("otherData"): a dictionary
    slices    structured array (slices,) in the order of the file: rank, track, name (the phase),
              category (the kind of time), layer, step (-1: none), begin_us, duration_us
    tracks    {(rank, track): name}
    events    all events of the file, as dictionaries
    """

    def __init__(self, metadata, events):
        self.metadata, self.events, self.tracks, rows = metadata, events, {}, []
        for event in events:
            rank, track = event.get("pid", -1), event.get("tid", -1)
            if event.get("ph") == "M" and event.get("name") == "thread_name":
                self.tracks[rank, track] = event["args"]["name"]
            if event.get("ph") != "X":
                continue
            arguments = event.get("args", {})
            rows.append({"rank": rank, "track": track, "name": event.get("name"),
                         "category": event.get("cat"), "layer": arguments.get("layer"),
                         "step": arguments.get("step"), "begin_us": event.get("ts"),
                         "duration_us": event.get("dur")})
        self.slices = _table(rows, _SLICE)


def trace(path):
    """Reads a trace, compressed or not, into a Trace."""
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    content = json.loads(data)
    if isinstance(content, list):
        return Trace({}, content)
    return Trace(content.get("otherData", {}), content["traceEvents"])


def _checkpoint_file(path):
    """A checkpoint, or the newest one of a run or of a directory of checkpoints."""
    path = pathlib.Path(path)
    if not path.is_dir():
        return path
    found = sorted([*path.glob("step-*.h5"), *path.glob("checkpoints/step-*.h5")])
    if not found:
        raise FileNotFoundError(f"{path} holds no checkpoint: give a file step-NNNNNNNNN.h5, or "
                                "the directory that train wrote with --out")
    return found[-1]


def _opened(path):
    """Opens a checkpoint. A run in progress may remove the newest one first: then that of now."""
    import h5py
    while True:
        file = _checkpoint_file(path)
        try:
            return h5py.File(file, "r")
        except OSError:
            if file == pathlib.Path(path) or file.exists():
                raise


def _text(value):
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def load_checkpoint(path, tree="parameters"):
    """The arrays of a checkpoint by "LAYER.weight" and "LAYER.bias", float32.

    path: the file, or the --out directory of a run for its newest. tree: "parameters",
    "optimizer" for the momentum of SGD and LARS, "first_moment" or "second_moment" for those of AdamW and
    LAMB. Shapes: convolution weights (out, in, kd, kh, kw), dense weights (out, in), where the
    inputs of the first dense layer are in the order d, h, w, c; biases (out,); weight, bias,
    running_mean and running_variance of batch norm (channels,). Layers are in the order of the
    network.
    """
    with _opened(path) as file:
        if tree not in file:
            raise ValueError(f"{file.filename} has no {tree}: give a checkpoint of halomesh, and "
                             f'one of its trees: {", ".join(sorted(set(file) - {"model", "run"}))}')
        # By number: conv10 comes after conv2.
        layers = sorted(file[tree], key=lambda name: [
            int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)])
        return {f"{layer}.{name}": file[tree][layer][name][()]
                for layer in layers
                for name in ("weight", "bias", "running_mean", "running_variance")
                if name in file[tree][layer]}


def checkpoint_options(path):
    """The options of the network in a checkpoint: {"kernel": "2", "input": "128x128x128x4", ...}."""
    with _opened(path) as file:
        if "model" not in file:
            raise ValueError(f"{file.filename} names no network: give a checkpoint of halomesh")
        return {name: _text(value) for name, value in file["model"].attrs.items()}


def state_dict(path):
    """The parameters of a checkpoint under PyTorch's names and in its layout: those of load_checkpoint() as tensors,
    but with the inputs of CosmoFlow's first dense layer in the order c, d, h, w.

    An imported network has the tensors of its ONNX file, under the names of that file, which loads into the module
    that was exported: module.load_state_dict(state_dict(path), strict=False). Needs the package onnx, and starts
    the program to write the file.
    """
    import torch
    options = checkpoint_options(path)
    if options["model"] == "onnx":
        return _exported_tensors(path)
    arrays = load_checkpoint(path)
    if options["model"] == "cosmoflow":
        d, h, w = (int(extent) >> int(options["conv-layers"]) for extent in options["input"].split("x")[:3])
        if options.get("average") == "on":
            d = h = w = 1
        weight = arrays["fc1.weight"]
        by_channel = weight.reshape(len(weight), d, h, w, -1).transpose(0, 4, 1, 2, 3)
        arrays["fc1.weight"] = numpy.ascontiguousarray(by_channel.reshape(weight.shape))
    return {name.replace("running_variance", "running_var"): torch.from_numpy(array)
            for name, array in arrays.items()}


def _exported_tensors(path):
    """The numbers in the file that `halomesh export onnx` writes of a checkpoint, by name."""
    import onnx
    import torch
    here = pathlib.Path(__file__).resolve().parent
    places = (os.environ.get("HALOMESH"), here / "../../build/halomesh", here / "../../../../bin/halomesh",
              shutil.which("halomesh"))
    program = next((place for place in places if place and pathlib.Path(place).exists()), None)
    if program is None:
        raise FileNotFoundError("the program halomesh, which exports a checkpoint, was not found: "
                                "set HALOMESH=/path/to/halomesh")
    with tempfile.TemporaryDirectory(prefix="halomesh-") as directory:
        file = os.path.join(directory, "network.onnx")
        done = subprocess.run([program, "export", "onnx", "--checkpoint", path, "--out", file],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        tensors = [tensor for tensor in onnx.load(file).graph.initializer if tensor.data_type == tensor.FLOAT]
        return {tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor)) for tensor in tensors}


def torch_module(path):
    """The network of a checkpoint as a torch.nn.Module in evaluation mode (no dropout; .train()
    turns it on), float32 on the CPU.

    Its input has shape (samples, channels, d, h, w) and holds numbers as the network takes them: counts as the
    files have them, of which the first layer takes log(1 + x), standardized after train --standardize; fields as
    normalized for training. With train --batch-norm, .train() normalizes each feature over the samples of a call.
    The output of CosmoFlow has shape (samples, targets), in the units of the targets also after train
    --scale-targets; with --loss ce or bce it holds scores of classes, whose softmax or sigmoid are their
    probabilities. That of the U-Net and DeepCAM has shape (samples, classes, d, h, w) and holds scores. Layers are
    called as in checkpoints. Raises ValueError for an imported network, whose module is yours.
    """
    from halomesh.torch_networks import NETWORKS, Network
    options = checkpoint_options(path)
    if options["model"] not in NETWORKS:
        raise ValueError(f"{path} holds the network {options['model']}: load state_dict() of it into the module "
                         "that was exported")
    return Network(NETWORKS[options["model"]], options, state_dict(path)).eval()
