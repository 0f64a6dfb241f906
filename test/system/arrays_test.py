#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on the same numbers in arrays of every type, layout and kind of file: the losses must be equal to the last
digit; and what is wrong with such files.

Counts its cases as skipped, and says why, where NumPy or h5py is missing. Environment: HALOMESH (the program), MPIRUN
(launcher with its flags).
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import run  # noqa: E402

try:
    from array_scene import NETWORK, TARGETS, Scene, halomesh, hdf5_all, hdf5_each, npy_all, npy_each  # noqa: E402
except ImportError as missing:
    print(f"skipped: {missing}; make deps installs it\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


class Arrays(Scene):
    def test_every_type_and_layout_has_the_losses_of_the_first(self):
        named = ("--inputs", "fields/density", "--targets-from", "parameters")
        wanted = self.losses(self.fill(hdf5_each("f4")))
        self.assertEqual(len(wanted), 3)
        cases = [(hdf5_each("f8", "f8"), ()), (hdf5_each("i4", "f8"), ()), (hdf5_each("u1"), ()),
                 (hdf5_each(">f4", channel=False), ()), (hdf5_all("f4"), ()),
                 (hdf5_all("f8", chunks=(1, 4, 5, 6), compression="gzip"), ()),
                 (hdf5_each("f4", names=("fields/density", "parameters")), named),
                 (hdf5_all("u2", names=("fields/density", "parameters")), named),
                 (npy_each("f4"), ("--targets-from", "rows.txt")),
                 (npy_each(">f8", version=(2, 0)), ("--targets-from", "rows.txt")),
                 (npy_each("i8", order="F", version=(3, 0), table="y.npy"), ("--targets-from", "y.npy")),
                 (npy_all("f8"), ("--targets-from", "rows.csv")),
                 (npy_all(">f4", order="F", channel=True), ("--targets-from", "rows.csv"))]
        for write, options in cases:
            with self.subTest(options=options):
                self.assertEqual(self.losses(self.fill(write), *options), wanted)

    def test_cut_and_staged_samples_are_the_same(self):
        for write, options in ((npy_each("f4"), ("--targets-from", "rows.txt")),
                               (npy_all("f8", order="F"), ("--targets-from", "rows.csv")),
                               (hdf5_all("f4"), ())):
            data = self.fill(write)
            whole = self.losses(data, *options)
            stage = ("--stage-dir", self.directory)
            for ranks, more in ((2, ("--parts", "2x1x1")), (4, ("--parts", "1x2x2", *stage)), (2, stage)):
                for cut, one in zip(self.losses(data, *options, *more, ranks=ranks), whole):
                    self.assertAlmostEqual(cut, one, delta=2e-6 * abs(one))

    def test_counts_stay_counts(self):
        counts = self.losses(self.fill(hdf5_each("i2")))
        self.assertNotEqual(counts, self.losses(self.fill(hdf5_each("f4"))))
        self.assertEqual(self.losses(self.fill(npy_each("i2")), "--targets-from", "rows.txt"), counts)

    def test_convert_keeps_numbers_and_targets(self):
        for write, options in ((npy_each("f8"), ("--targets-from", "rows.txt")),
                               (hdf5_all("i4", names=("a", "b")), ("--inputs", "a", "--targets-from", "b"))):
            data, archive = self.fill(write), self.directory / f"archive-{self.made}"
            made = halomesh(2, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS,
                            "--verify", *options)
            self.assertEqual(made.code, 0, made.err)
            self.assertIn("verified against the source", made.out)
            self.assertEqual(self.losses(archive), self.losses(data, *options))

    def test_names_of_a_table_become_titles_of_targets(self):
        data = self.fill(npy_all("f4"))
        self.losses(data, "--targets-from", "rows.csv")
        told = halomesh(1, "eval", "--checkpoint", self.directory / f"run-{self.made}", "--data", data,
                        "--targets-from", "rows.csv")
        self.assertRegex(told.out, r"(?m)^  first +\d")


class Refusals(Scene):
    def test_of_tables(self):
        data = self.fill(npy_each("f4"))
        self.assertIn("name a table of the targets by --targets-from", self.refusal(data))
        table = ("--targets-from", "rows.txt")
        self.assertIn("line 3 has a name and 2 numbers, expected 3 hint: set --targets 2,",
                      " ".join(self.refusal(data, *table, "--targets", 3).split()))
        (data / "train" / "rows.txt").write_text("box_0 1 0.2\nbox_1 1 0.2\n")
        self.assertIn("has no row for box_2", self.refusal(data, *table))
        (data / "train" / "rows.txt").write_text("1 2\n1 2\n")
        self.assertIn("has 2 rows", self.refusal(data, *table))
        (data / "train" / "rows.txt").write_text("1 2\n1 two\n")
        self.assertIn("line 2: 'two' is not a number", self.refusal(data, *table))
        data = self.fill(npy_each("i8", table="y.npy"))
        (data / "train" / "y.npy").write_bytes((data / "train" / "y.npy").read_bytes()[:-8] + bytes(6) + b"\xf8\x7f")
        self.assertIn("y.npy: row 3 holds nan", self.refusal(data, "--targets-from", "y.npy"))

    def test_of_files(self):
        table = ("--targets-from", "rows.txt")
        data = self.fill(npy_each("f2"))
        self.assertIn("it holds elements of '<f2'", self.refusal(data, *table))
        data = self.fill(npy_each("f4"))
        broken = data / "train" / "box_2.npy"
        broken.write_bytes(broken.read_bytes()[:-8])
        self.assertIn("box_2.npy: it has 3832 of the 3840 bytes of its elements", self.refusal(data, *table))
        broken.write_bytes(b"\x93NUMPY\x09\x00" + bytes(200))
        self.assertIn("box_2.npy: it has no header of version 1, 2 or 3", self.refusal(data, *table))
        data = self.fill(hdf5_each("f4", names=("density", "parameters")))
        self.assertIn("--inputs", self.refusal(data))
        self.assertIn("has no dataset /y, only density, parameters", self.refusal(data, "--inputs", "density"))

    def test_of_names_that_a_format_does_not_take(self):
        data, archive = self.fill(hdf5_each("f4")), self.directory / "archive"
        made = halomesh(1, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS)
        self.assertEqual(made.code, 0, made.err)
        self.assertIn("--inputs x: ", self.refusal(archive, "--inputs", "x"))
        self.assertIn("--targets-from y: ", self.refusal(archive, "--targets-from", "y"))

    def test_of_other_channels(self):
        network = "--input 8x10x12x2 --conv-layers 2 --filters 4 --fc 8 --batch 2 --targets 2 --epochs 1 --lr 0.01"
        told = self.refusal(self.fill(hdf5_each("f4")), network=network.split())
        self.assertIn("the data have 1 channel in each voxel, the network takes 2: train one with --input 8x10x12x1",
                      " ".join(told.split()))

    def test_of_outputs_over_what_a_command_reads_or_a_network_came_from(self):
        data, run = self.fill(npy_all("f4")), self.directory / "run"
        table = ("--targets-from", "rows.csv")
        shutil.copy(data / "train" / "rows.csv", data / "rows.csv")
        flat, net = shutil.copytree(data / "train", self.directory / "flat"), self.directory / "net.onnx"
        train = ("train", "--data", data, *table, "--epochs", 1)

        def done(*words):
            outcome = halomesh(1, *words)
            self.assertEqual(outcome.code, 0, outcome.err)
        done(*train, *NETWORK, "--targets", TARGETS, "--out", self.directory / "first")
        done("export", "onnx", "--checkpoint", self.directory / "first", "--out", net)
        done(*train, "--network", net, "--batch", 2, "--out", run)
        export = ("export", "onnx", "--checkpoint", run, "--out")
        predict = ("predict", "--checkpoint", run, "--data")
        kept = [*data.rglob("*.*"), *flat.iterdir(), net]
        before = [path.read_bytes() for path in kept]
        new = (*train, "--batch", 2, "--network", net, "--out", self.directory / "new", "--trace")
        for words, says in (
                ((*export, net), "is the file that the network of"),
                ((*export, data / "train" / "boxes.npy"), "lies in train/ of the data set"),
                ((*new, net), "is an input: --network"),
                ((*new, data / "rows.csv"), "is a file of --data"),
                ((*predict, data, *table, "--out", data / "rows.csv"), "is a file of --data"),
                ((*predict, flat, "--out", flat / "rows.csv"), "is a file of --data"),
                ((*predict, flat, "--out", flat / "new.npy"), "would be one of the samples of --data"),
                (("plan", "--network", net, "--json", net), "is an input: --network"),
                (("plan", "--network", net, "--picture", net), "is an input: --network")):
            with self.subTest(words[-3:]):
                outcome = halomesh(1, *words)
                self.assertEqual(outcome.code, 2, outcome.err)
                self.assertIn(says, outcome.err)
                self.assertEqual([path.read_bytes() for path in kept], before)
        for _ in range(2):  # over predictions, but nothing else
            done(*predict, flat, "--out", flat / "predictions.csv")

    def test_negative_counts_name_the_cure(self):
        def write(directory, split, x, y):
            hdf5_each("i2")(directory, split, x - 50, y)
        self.assertIn("write other numbers as float32", self.refusal(self.fill(write)))


if __name__ == "__main__":
    sys.exit(run())
