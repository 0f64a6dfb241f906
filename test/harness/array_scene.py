# SPDX-License-Identifier: Apache-2.0
"""Small data sets of arrays in many kinds of files, and runs on them, for suites of cases, which are skipped without
NumPy or h5py."""
import csv
import json
import os
import pathlib
import shlex
import shutil
import tempfile
import unittest

from python_cases import PROGRAM, command, needs

needs("numpy", "h5py")
import h5py  # noqa: E402
import numpy  # noqa: E402

SPLITS = {"train": 4, "validation": 2}
SHAPE, TARGETS = (8, 10, 12), 2
NETWORK = "--input 8x10x12x1 --conv-layers 2 --filters 4 --fc 8 --batch 2".split()


def halomesh(ranks, *words):
    return command(*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", ranks, PROGRAM, *words, program=())


def boxes(split, samples):
    """Whole numbers that every type of elements holds, and two targets of each box."""
    start = 0 if split == "train" else 100
    numbers = numpy.arange(samples * numpy.prod(SHAPE)).reshape(samples, *SHAPE) * 7 + start
    return numbers % 120, numpy.array([[i / 8 - 0.25, 0.5 - i / 16] for i in range(samples)])


class Scene(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.addCleanup(shutil.rmtree, self.directory)
        self.made = 0

    def done(self, ranks, *words):
        """The outcome of a command, which must succeed."""
        outcome = halomesh(ranks, *words)
        self.assertEqual(outcome.code, 0, outcome.err)
        return outcome

    def run_of(self, number=None):
        """The directory of a run, or of the last one."""
        return self.directory / f"run-{number or self.made}"

    def evaluation(self, run, data, *options, ranks=1):
        """What eval writes, and what it prints."""
        out = self.directory / "quality.json"
        done = self.done(ranks, "eval", "--checkpoint", run, "--data", data, "--json", out, *options)
        return json.loads(out.read_text()), done.out

    def predictions(self, run, data, *options, ranks=1):
        """The rows of the table that predict writes, and what it prints."""
        out = self.directory / "predicted.csv"
        done = self.done(ranks, "predict", "--checkpoint", run, "--data", data, "--out", out, *options)
        with out.open() as file:
            return list(csv.DictReader(file)), done.out

    def fill(self, write):
        """A data set whose splits `write(directory, split, x, y)` makes."""
        self.made += 1
        data = self.directory / f"data-{self.made}"
        for split, samples in SPLITS.items():
            (data / split).mkdir(parents=True)
            write(data / split, split, *boxes(split, samples))
        return data

    def losses(self, data, *options, ranks=1, told="", network=None):
        """The losses of a run, which must print `told`."""
        self.made += 1
        out = self.directory / f"run-{self.made}"
        outcome = halomesh(ranks, "train", "--data", data, "--out", out, *network_with(options, network), *options)
        self.assertEqual(outcome.code, 0, outcome.err)
        self.assertIn(told, outcome.err)
        events = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        return [event["loss"] for event in events if event["event"] in ("step", "eval")]

    def refusal(self, data, *options, network=None):
        outcome = halomesh(2, "train", "--data", data, "--out", self.directory / "none",
                           *network_with(options, network), *options)
        self.assertNotEqual(outcome.code, 0)
        self.assertEqual(outcome.err.count("error: "), 1, outcome.err)
        return outcome.err


def network_with(options, network):
    """The options of a network, but those that are given."""
    defaults = () if network else (("--targets", TARGETS), ("--epochs", 1), ("--lr", 0.01))
    return [*(network or NETWORK), *(word for pair in defaults if pair[0] not in options for word in pair)]


def hdf5_each(dtype, of_targets="f4", names=("x", "y"), channel=True):
    def write(directory, _, x, y):
        for i, (box, row) in enumerate(zip(x, y)):
            with h5py.File(directory / f"box_{i}.h5", "w") as file:
                file[names[0]] = (box[..., None] if channel else box).astype(dtype)
                file[names[1]] = row.astype(of_targets)
    return write


def hdf5_all(dtype, names=("x", "y"), **layout):
    def write(directory, _, x, y):
        with h5py.File(directory / "all.hdf5", "w") as file:
            file.create_dataset(names[0], data=x.astype(dtype), **layout)
            file[names[1]] = y
    return write


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc_entry(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


CRC_TABLE = [crc_entry(byte) for byte in range(256)]


def record(features):
    """A tf.train.Example in the framing of TFRecord: of bytes, floats or integers for each name."""
    def varint(value):
        value &= 2**64 - 1
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    def field(number, content):
        return bytes([number * 8 + 2]) + varint(len(content)) + content

    def feature(values):
        if isinstance(values, bytes):
            return field(1, field(1, values))
        values = numpy.asarray(values).ravel()
        if values.dtype.kind == "f":
            return field(2, field(1, values.astype("<f4").tobytes()))
        return field(3, field(1, b"".join(map(varint, values.tolist()))))

    def masked(data):
        crc = crc32c(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")
    payload = field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature(values)))
                                for name, values in features.items()))
    length = len(payload).to_bytes(8, "little")
    return length + masked(length) + payload + masked(payload)


def tfrecords(features, one_file=False):
    """Records of `features(x, y)`, of which bytes are those of an array."""
    def write(directory, _, x, y):
        records = [record(features(box, row)) for box, row in zip(x, y)]
        if one_file:
            (directory / "all.tfrecord").write_bytes(b"".join(records))
        for i, each in enumerate(records if not one_file else ()):
            (directory / f"box_{i}.tfrecord").write_bytes(each)
    return write


def with_labels(write, save):
    """The files of `write`, and those that `save(directory, labels, x)` writes: a label of 0 to 2 for each voxel."""
    def labelled(directory, split, x, y):
        write(directory, split, x, y)
        save(directory, labels_of(x), x)
    return labelled


def labels_of(x):
    return x // 7 % 3


def npy_each(dtype, order="C", version=None, table="rows.txt"):
    def write(directory, split, x, y):
        for i, box in enumerate(x):
            with open(directory / f"box_{i}.npy", "wb") as file:
                numpy.lib.format.write_array(file, numpy.asarray(box, dtype=dtype, order=order), version=version)
        write_table(directory / table, split, y)
    return write


def npy_all(dtype, order="C", channel=False, table="rows.csv"):
    def write(directory, split, x, y):
        x = x[..., None] if channel else x
        numpy.save(directory / "boxes.npy", numpy.asarray(x, dtype=dtype, order=order))
        write_table(directory / table, split, y)
    return write


def write_table(path, _, y):
    if path.suffix == ".npy":
        numpy.save(path, numpy.asfortranarray(y))
    elif path.suffix == ".csv":
        path.write_text("first,second\n" + "".join(f"{a:.17g},{b:.17g}\n" for a, b in y))
    else:  # names in another order, of which the table has more
        rows = [f"box_{i}.npy  {a:.17g}\t {b:.17g}\n".replace("\t", "") for i, (a, b) in enumerate(y)]
        path.write_text("# name first second\n\n" + "".join(reversed(rows)) + "elsewhere 1 2\n")
