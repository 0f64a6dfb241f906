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

from array_scene import (NETWORK, TARGETS, Scene, boxes, halomesh, hdf5_all, hdf5_each, labels_of, npy_all, npy_each,  # noqa: E402
                         tfrecords, with_labels, write_table)
import h5py  # noqa: E402
import numpy  # noqa: E402

SEGMENTATION = "--model unet3d --levels 2 --filters 4 --classes 3 --input 8x10x12x1 --batch 2 --epochs 1 --lr 0.01".split()


def labels_each(dtype, order="C", word="seg"):
    """Arrays of labels beside those of samples."""
    def save(directory, labels, _):
        for i, each in enumerate(labels):
            numpy.save(directory / f"box_{i}_{word}.npy", numpy.asarray(each, dtype=dtype, order=order))
    return save


def labels_all(dtype, name="labels.npy"):
    return lambda directory, labels, _: numpy.save(directory / name, labels.astype(dtype))


def hdf5_labels(dtype):
    def save(directory, labels, x):
        for i, each in enumerate(labels):
            with h5py.File(directory / f"box_{i}.h5", "a") as file:
                file["labels"] = each.astype(dtype)
    return save


class Arrays(Scene):
    def assert_cells(self, reference, cases, network=None):
        """Each (write, options) has the losses of the reference, and likewise on two parts."""
        wanted = self.losses(self.fill(reference), network=network)
        self.assertEqual(len(wanted), 3)
        for write, options in cases:
            with self.subTest(options=options):
                data = self.fill(write)
                self.assertEqual(self.losses(data, *options, network=network), wanted)
                for cut, one in zip(self.losses(data, *options, "--parts", "2x1x1", ranks=2, network=network), wanted):
                    self.assertAlmostEqual(cut, one, delta=5e-6 * abs(one))

    def test_labels_of_voxels_in_every_format_and_beside_every_format(self):
        table = ("--targets-from", "labels.npy")
        as_list, as_bytes = (tfrecords(lambda x, y, of=of: {"labels": of(labels_of(x)), "x": x.astype("f4")}, one_file=one)
                             for of, one in ((lambda n: n, False), (lambda n: n.astype("u1").tobytes(), True)))
        self.assert_cells(with_labels(hdf5_each("f4"), hdf5_labels("u1")), [
            (with_labels(hdf5_each("f8"), hdf5_labels("i8")), ()),
            (with_labels(npy_each("f4"), labels_each("i8")), ()),
            (with_labels(npy_each(">f8", order="F"), labels_each(">u2", order="F", word="mask")), ()),
            (with_labels(npy_all("f4", channel=True), labels_all("u1", "boxes_labels.npy")), ()),
            (with_labels(npy_each("f4"), labels_all("i4")), table),
            (with_labels(npy_all("f8"), labels_all("f4")), table),
            (with_labels(hdf5_all("f4"), labels_all("i2")), table),
            (as_list, ()), (as_bytes, ()), (with_labels(as_list, labels_all("u4")), table)], SEGMENTATION)

    def test_labels_are_staged_cropped_converted_and_judged(self):
        listed = tfrecords(lambda x, y: {"x": x.astype("f4"), "labels": labels_of(x)})
        crops = ["--patches", "random", *SEGMENTATION, "--input", "8x8x8x1"]
        crops.remove("8x10x12x1")
        crops.remove("--input")
        reference = self.fill(with_labels(hdf5_each("f4"), hdf5_labels("u1")))
        wanted, cropped = (self.losses(reference, network=network) for network in (SEGMENTATION, crops))
        for write in (listed, with_labels(npy_all("f4"), labels_all("u1", "boxes_seg.npy")),
                      with_labels(npy_each("f4"), labels_each("i8"))):
            data = self.fill(write)
            archive = self.directory / f"archive-{self.made}"
            self.done(2, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--classes", 3, "--verify")
            self.assertEqual(self.losses(archive, network=SEGMENTATION), wanted)
            self.assertEqual(self.losses(data, "--stage-dir", self.directory, network=SEGMENTATION), wanted)
            if write is listed:
                self.assertIn("TFRecord files do not say the extents of samples", self.refusal(data, network=crops))
                data = archive
            self.assertEqual(self.losses(data, "--stage-dir", self.directory, network=crops), cropped)
            self.assertEqual(self.losses(data, network=crops), cropped)
            for command in ("eval", "predict"):
                out = ("--out", self.directory / "predicted.h5") if command == "predict" else ()
                told = self.done(1, command, "--checkpoint", self.run_of(), "--data", data, "--windows", *out)
                self.assertIn("Dice", told.out)
        for name in (data / "validation").iterdir():
            name.unlink()
        numpy.save(data / "validation" / "new.npy", numpy.ones((9, 9, 9)))
        told = self.done(1, "predict", "--checkpoint", self.run_of(), "--data", data, "--windows", *out)
        self.assertNotIn("Dice", told.out)

    def test_counts_with_labels(self):
        as_bytes = tfrecords(lambda x, y: {"x": x.astype("<i2").tobytes(), "labels": labels_of(x).astype("u1").tobytes()})
        network = [*SEGMENTATION[2:], "--model", "unet3d"]
        self.assert_cells(with_labels(hdf5_each("i2"), hdf5_labels("u1")), [
            (as_bytes, ()), (with_labels(npy_all("i2"), labels_all("u1", "boxes_seg.npy")), ())], network)

    def test_numbers_and_targets_in_records(self):
        def listed(x, y):
            return {"x": x.astype("f4"), "y": y}

        def table(directory, split, x, y):
            tfrecords(lambda x, _: {"x": x})(directory, split, x, y)
            write_table(directory / "rows.csv", split, y)
        self.assert_cells(hdf5_each("f4"), [(tfrecords(listed), ()), (tfrecords(listed, one_file=True), ()),
                                            (tfrecords(lambda x, y: {"x": x, "y": y}), ()),
                                            (table, ("--targets-from", "rows.csv"))])
        whole = self.losses(self.fill(lambda d, s, x, y: hdf5_each("f4")(d, s, x, numpy.sign(y))))
        signs = tfrecords(lambda x, y: {"x": x.astype("f4"), "y": numpy.sign(y).astype("i8")})
        self.assertEqual(self.losses(self.fill(signs)), whole)
        counts = tfrecords(lambda x, y: {"x": x.astype("<i2").tobytes(), "y": y})
        self.assertEqual(self.losses(self.fill(counts)), self.losses(self.fill(hdf5_each("i2"))))

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
            made = self.done(2, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS,
                            "--verify", *options)
            self.assertIn("verified against the source", made.out)
            self.assertEqual(self.losses(archive), self.losses(data, *options))

    def test_a_share_is_the_same_in_training_and_conversion(self):
        table, share = ("--targets-from", "y.npy"), ("--split", 0.4)
        for place, write, options, network in (
                (".", npy_each("f4", table="y.npy"), table, None), ("train", npy_each("f4", table="y.npy"), table, None),
                (".", hdf5_all("f4"), (), None), ("train", tfrecords(lambda x, y: {"x": x.astype("f4"), "y": y}), (), None),
                (".", with_labels(npy_each("f4"), labels_each("u1")), (), SEGMENTATION),
                ("train", with_labels(npy_each("f4"), labels_all("i8")), ("--targets-from", "labels.npy"), SEGMENTATION)):
            self.made += 1
            data, archive = self.directory / f"share-{self.made}", self.directory / f"archive-{self.made}"
            (data / place).mkdir(parents=True)
            write(data / place, "train", *boxes("train", 7))
            wanted = self.losses(data, *options, *share, network=network)
            size = ("--classes", 3) if network else ("--targets", TARGETS)
            made = self.done(2, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", *size, *options, *share,
                            "--verify")
            told = [int(line.split(": ")[1].split()[0]) for line in made.out.splitlines()[:2]]
            self.assertEqual(sum(told), 7)
            self.assertGreater(min(told), 0)
            self.assertEqual(self.losses(archive, network=network), wanted)
            self.assertEqual(len({path.name for path in archive.glob("*.h5")}), 2)

    def test_names_of_a_table_become_titles_of_targets(self):
        data = self.fill(npy_all("f4"))
        self.losses(data, "--targets-from", "rows.csv")
        _, told = self.evaluation(self.run_of(), data, "--targets-from", "rows.csv")
        self.assertRegex(told, r"(?m)^  first +\d")
        archive, run_of_archive = self.directory / "archive", self.directory / "run-archive"
        self.done(1, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS,
                  "--targets-from", "rows.csv")
        self.done(1, "train", "--data", archive, "--out", run_of_archive, *NETWORK, "--targets", TARGETS, "--epochs", 1)
        _, told = self.evaluation(run_of_archive, archive)
        self.assertRegex(told, r"(?m)^  second +\d")


class Refusals(Scene):
    def test_of_labels(self):
        def told(write, *options):
            return " ".join(self.refusal(self.fill(write), *options, network=SEGMENTATION).split())
        table = ("--targets-from", "labels.npy")
        self.assertIn("box_0.npy has no labels hint: name them box_0_seg.npy beside it, or give", told(npy_each("f4")))
        self.assertIn("box_0_seg.npy: /values of 8x9x12, expected 8x10x12 hint: there must be a label for each voxel",
                      told(with_labels(npy_each("f4"), lambda *_: labels_each("u1")(_[0], _[1][:, :, :9], _[2]))))
        self.assertIn("has labels of 3 samples", told(with_labels(npy_all("f4"), lambda d, labels, x: labels_all("u1")(
            d, labels[:len(x) - 1], x)), *table))
        self.assertRegex(told(with_labels(npy_each("f4"), lambda d, labels, x: labels_each("u1")(d, labels + (x // 7 == 3) * 3, x))),
                         r"box_\d_seg.npy: sample 0: label of voxel \(d,h,w\) = \(0,0,\d\) is 3, expected a label of 0 to 2")
        self.assertIn("gives numbers of samples", told(npy_all("f4"), "--targets-from", "rows.csv"))
        bare = tfrecords(lambda x, y: {"x": x.astype("f4"), "y": y})
        self.assertIn("record 0: feature labels is missing hint: add it, a list of integers", told(bare))
        self.assertRegex(told(tfrecords(lambda x, y: {"x": x.astype("f4"), "labels": labels_of(x) * 9})),
                         r"record 0: label of voxel \(d,h,w\) = \(0,0,\d\) is 9, expected a label of 0 to 2")
        self.assertIn("labels (feature labels): expected 960 for 8x10x12x1, found 7680",
                      told(tfrecords(lambda x, y: {"x": x.astype("f4"), "labels": labels_of(x).tobytes()})))

    def test_of_unequal_extents(self):
        def longer(directory, split, x, y):
            for i, each in enumerate(x):
                box = numpy.concatenate([each, each[:2 * i]])
                write(directory, i, box.astype("f4"), labels_of(box))

        def in_hdf5(directory, i, box, labels):
            with h5py.File(directory / f"box_{i}.h5", "w") as file:
                file["x"], file["labels"] = box, labels

        def in_npy(directory, i, box, labels):
            numpy.save(directory / f"box_{i}.npy", box)
            numpy.save(directory / f"box_{i}_mask.npy", labels)
        for write in (in_hdf5, in_npy):
            data = self.fill(longer)
            told = " ".join(self.refusal(data, network=SEGMENTATION).split())
            self.assertIn("hint: samples have extents from 8x10x12 to 14x10x12: train with --patches random", told)
            self.assertNotIn("try --input", told)
            self.losses(data, "--patches", "random", network=SEGMENTATION)
            archive = self.directory / f"archive-{self.made}"
            convert = ("convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--classes", 3)
            self.assertIn("convert with --any-extents", " ".join(halomesh(1, *convert).err.split()))
            self.assertEqual(halomesh(1, *convert, "--any-extents").code, 0)
            self.assertIn("from 8x10x12 to 14x10x12", self.refusal(archive, network=SEGMENTATION))

    def test_of_records(self):
        def told(features, *options):
            return " ".join(self.refusal(self.fill(tfrecords(features)), *options).split())
        self.assertIn("byte strings are read as int16: write float32 as a list of floats",
                      told(lambda x, y: {"x": x.astype("f4").tobytes(), "y": y}))
        self.assertIn("record 0: feature y (targets) is missing hint: add it, a list of numbers, or name a table",
                      told(lambda x, y: {"x": x.astype("f4")}))
        self.assertRegex(told(lambda x, y: {"x": numpy.where(x // 7 % 4 == 2, numpy.nan, x), "y": y}),
                         r"voxel \(d,h,w,c\) = \(0,0,\d,0\) is nan, expected a finite number")
        self.assertIn("record 0: voxels (feature x): expected 960 numbers for 8x10x12x1, found 480",
                      told(lambda x, y: {"x": x[:4].astype("f4"), "y": y}))
        self.assertIn("voxels (feature x) are a byte string, in others a list of numbers",
                      told(lambda x, y: {"x": x if y[0] < 0 else x.astype("f8").tobytes(), "y": y}))

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

    def test_of_conversions(self):
        data, archive = self.fill(hdf5_all("f4")), self.directory / "archive"
        convert = ("convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS)
        for split, says in (("test", "expected all, train, validation or, with --from, a share"), (1.5, "a share above 0 and"),
                            (0, "a share above 0"), (0.2, "has validation/")):
            told = halomesh(1, *convert, "--split", split)
            self.assertEqual(told.code, 2, told.err)
            self.assertIn(f"--split {split}: ", told.err)
            self.assertIn(says, told.err)
        told = halomesh(1, "convert", "--to", archive, "--verify", "--split", 0.2)
        self.assertEqual(told.code, 2, told.err)
        archive.mkdir(exist_ok=True)  # a file that is not the program's
        (archive / "train-00003.h5").write_text("mine")
        told = halomesh(1, *convert)
        self.assertEqual(told.code, 1, told.err)
        self.assertIn("hint: use another --to, or keep that file elsewhere", told.err)
        self.assertEqual((archive / "train-00003.h5").read_text(), "mine")

    def test_of_names_that_a_format_does_not_take(self):
        data, archive = self.fill(hdf5_each("f4")), self.directory / "archive"
        self.done(1, "convert", "--from", data, "--to", archive, "--input", "8x10x12x1", "--targets", TARGETS)
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
            self.done(1, *words)
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
