#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A class for each volume: the same scores from every mesh and every source of labels, compared with NumPy; what is
written of them; and what is said of labels that are wrong.

Counts its cases as skipped, and says why, where NumPy or h5py is missing. Environment: HALOMESH (the program),
HALOMESH_SOURCE (the source tree), MPIRUN (launcher with its flags).
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import SOURCE, command, run  # noqa: E402

from array_scene import NETWORK, Scene, hdf5_each, npy_all, npy_each  # noqa: E402
import h5py  # noqa: E402
import numpy  # noqa: E402

CE = ("--loss", "ce", "--targets", 3, "--epochs", 1, "--lr", 0.01)
BCE = ("--loss", "bce", "--epochs", 1, "--lr", 0.01, "--targets", 2)


def labelled(write, labels=None, dtype="i8"):
    """Makes files of `write` with a class for each sample, or with `labels(count)`."""
    def classes(directory, split, x, y):
        found = numpy.arange(len(x)) % 3 if labels is None else labels(len(x))
        write(directory, split, x / 128, found.astype(dtype))
    return classes


def one_hdf5(directory, _, x, y):
    with h5py.File(directory / "all.h5", "w") as file:
        file["x"], file["y"] = x.astype("f4"), y


class Classes(Scene):
    def train(self, data, *options):
        return self.done(1, "train", "--data", data, "--out", self.directory / "run", *NETWORK, *options)

    def rows(self, data):
        return self.predictions(self.directory / "run", data, "--parts", "1x2x1", ranks=2)[0]

    def test_every_source_of_labels_has_the_losses_of_the_first(self):
        wanted = self.losses(self.fill(labelled(hdf5_each("f4"))), *CE)
        cases = [(labelled(hdf5_each("f4"), dtype="u1"), ()), (labelled(one_hdf5, dtype="f4"), ()),
                 (labelled(hdf5_each("f4", names=("a", "b")), dtype="i2"), ("--inputs", "a", "--targets-from", "b")),
                 (labelled(npy_each("f4", table="y.npy"), dtype="i4"), ("--targets-from", "y.npy"))]
        for write, options in cases:
            with self.subTest(options=options):
                self.assertEqual(self.losses(self.fill(write), *CE, *options), wanted)

        def in_text(directory, split, x, y):
            npy_all("f4", table="y.npy")(directory, split, x, y)
            (directory / "kinds.csv").write_text("kind\n" + "".join(f"{label}\n" for label in y))
            (directory / "y.npy").unlink()
        self.assertEqual(self.losses(self.fill(labelled(in_text)), *CE, "--targets-from", "kinds.csv"), wanted)

    def test_losses_are_those_of_numpy(self):
        for options, labels in ((CE, None), (BCE, lambda count: numpy.arange(2 * count).reshape(count, 2) % 3 % 2)):
            data = self.fill(labelled(hdf5_each("f4"), labels))
            self.train(data, *options, "--resume", "never")
            quality, _ = self.evaluation(self.directory / "run", data, "--parts", "2x1x1", ranks=2)
            rows = self.rows(data)
            p = numpy.array([[float(row[name]) for name in row if name.startswith("probability_")] for row in rows])
            y = numpy.array([[int(row[name]) for name in row if name.startswith("target_")] for row in rows])
            if options is CE:
                loss = -numpy.log(numpy.take_along_axis(p, y, axis=1)).mean()
                found = [numpy.argmax(row) for row in p]
                self.assertEqual([int(row["predicted_class"]) for row in rows], found)
                self.assertEqual(quality["accuracy"], numpy.mean(found == y[:, 0]))
            else:
                loss = -(y * numpy.log(p) + (1 - y) * numpy.log(1 - p)).mean()
                self.assertEqual(quality["accuracy"], numpy.mean((p > 0.5) == y))
                self.assertEqual(len(quality["confusion"]), 2)
            self.assertAlmostEqual(quality["loss"], loss, delta=1e-6)

    def test_a_story_of_a_hundred_volumes(self):
        made = command(sys.executable, SOURCE / "docs" / "tutorials" / "make_volumes.py", self.directory / "volumes", program=())
        self.assertEqual(made.code, 0, made.err)
        options = ("--split 0.2 --input 32x32x32x1 --loss ce --targets 3 --conv-layers 4 --filters 16 --fc 32 --dropout 0 "
                   "--optimizer adamw --lr 0.002 --epochs 12 --batch 8 --reproducible").split()
        found = []
        for ranks, parts in ((1, "1x1x1"), (2, "2x1x1")):
            out = self.directory / f"story-{ranks}"
            done = self.done(ranks, "train", "--data", self.directory / "volumes", "--out", out, "--parts", parts, *options)
            self.assertNotIn("files of train too", done.err)
            for judges, cut in ((1, "1x1x1"), (2, "2x1x1")):
                quality, told = self.evaluation(out, self.directory / "volumes", "--parts", cut, "--baseline", ranks=judges)
                found.append([quality[name] for name in ("accuracy", "balanced_accuracy", "auc", "confusion", "baselines")])
            end = json.loads((out / "run.json").read_text())["end"]["validation"]
            self.assertEqual([end[name] for name in ("accuracy", "balanced_accuracy", "auc", "confusion")], found[-1][:4])
        self.assertEqual(found, found[:1] * 4)
        self.assertGreater(found[0][0], found[0][4]["majority"]["accuracy"] + 0.2)
        self.assertIn("accuracy of always predicting ball", told)
        self.assertRegex(told, r"(?m)^  class  samples  recall  precision  as ball  as shell  as rod$")

    def test_what_is_written_names_the_classes(self):
        data = self.fill(labelled(hdf5_each("f4")))
        (data / "dataset.json").write_text('{"classes": ["grain", "pore, closed", "crack"]}')
        done = self.train(data, *CE, "--target-score", 0.01)
        self.assertRegex(done.err + done.out, "validation accuracy .*")
        told = done.out
        self.assertIn("validation reached the target accuracy 0.01", told)
        rows = self.rows(data)
        self.assertEqual(list(rows[0]), ["sample", "name", "class", "predicted_class", "probability_grain",
                                         "probability_pore__closed", "probability_crack", "target_class"])
        self.assertTrue(all(row["class"] in ("grain", "pore__closed", "crack") for row in rows))
        out = self.directory / "predicted.h5"
        self.done(2, "predict", "--checkpoint", self.directory / "run", "--data", data, "--parts", "1x2x1", "--out", out)
        with h5py.File(out) as file:
            self.assertEqual(file["probability"].attrs["names"].decode(), "grain,pore__closed,crack")
            self.assertEqual(file["predicted"][:, 0].tolist(), [float(row["predicted_class"]) for row in rows])
        page = self.directory / "report.html"
        done = command("report", self.directory / "run", self.directory / "predicted.csv", "-o", page)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("true class", page.read_text())
        self.assertIn("as crack", page.read_text())
        self.assertIn("reached a validation accuracy of", done.out)

    def test_refusals_name_sample_value_and_cure(self):
        def wrong(count):
            return numpy.array([0, 7, 1, 2])[:count]
        told = self.refusal(self.fill(labelled(hdf5_each("f4"), wrong)), *CE)
        self.assertIn("box_1.h5: sample 0: target 0 is 7, expected a label of 0 to 2", told)
        self.assertIn("the network has 3 outputs, one for each class: correct the label, or use a network with more", told)
        staged = self.refusal(self.fill(labelled(hdf5_each("f4"), wrong)), *CE, "--stage-dir", self.directory)
        self.assertIn("target 0 is 7, expected a label of 0 to 2", staged)
        table = ("--targets-from", "y.npy")
        half = self.refusal(self.fill(labelled(npy_each("f4", table="y.npy"), lambda n: numpy.arange(n) / 2, "f4")), *CE, *table)
        self.assertIn("y.npy: box_1: target 0 is 0.5, expected a label of 0 to 2", half)
        self.assertIn("expected a label of 0 to 1", self.refusal(
            self.fill(labelled(hdf5_each("f4"), lambda n: numpy.arange(2 * n).reshape(n, 2))), *BCE))
        pairs = self.refusal(self.fill(labelled(hdf5_each("f4"), lambda n: numpy.zeros((n, 2)))), *CE)
        self.assertIn("give one label for each sample, or with --loss bce set --targets 2", pairs)
        self.assertIn("needs two outputs or more", self.refusal(
            self.fill(labelled(hdf5_each("f4"))), "--loss", "ce", "--targets", 1, "--epochs", 1, "--lr", 0.01))
        self.assertIn("leave out --scale-targets", self.refusal(self.fill(labelled(hdf5_each("f4"))), *CE, "--scale-targets"))


if __name__ == "__main__":
    sys.exit(run())
