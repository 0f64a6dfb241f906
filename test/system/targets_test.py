#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Targets in units of their own: beyond the outputs of the network, scaled to them, and what is said where nothing is
learned; predictions with names, with and without truth.

Counts its cases as skipped, and says why, where NumPy or h5py is missing. Environment: HALOMESH (the program), MPIRUN
(launcher with its flags).
"""
import importlib.util
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import run  # noqa: E402

from array_scene import TARGETS, Scene, halomesh, hdf5_each, npy_each, tfrecords  # noqa: E402
import h5py  # noqa: E402
import numpy  # noqa: E402


def in_units(write, units=((3, 40), (0.01, -0.5))):
    """Targets multiplied and moved."""
    def wide(directory, split, x, y):
        write(directory, split, x, numpy.stack([y[:, t] * a + b for t, (a, b) in enumerate(units)], axis=1))
    return wide


class Inputs(Scene):
    def test_samples_alone_are_enough(self):
        table = ("--targets-from", "rows.txt")
        data = self.fill(npy_each("f4"))
        self.losses(data, *table)
        number = self.made
        wanted, _ = self.predictions(self.run_of(number), data, *table)
        self.assertEqual(list(wanted[0]), ["sample", "name", "predicted_first", "predicted_second", "target_first",
                                           "target_second"])
        for lonely in (data / "validation", data / "validation" / "box_1.npy"):
            for ranks, parts in ((1, "1x1x1"), (2, "1x2x1")):
                rows, told = self.predictions(self.run_of(number), lonely, "--parts", parts, ranks=ranks)
                self.assertNotIn("MAE", told)
                self.assertEqual(list(rows[0]), ["sample", "name", "predicted_first", "predicted_second"])
                self.assertEqual([row["name"] for row in rows], ["box_0", "box_1"][-len(rows):])
                for row, other in zip(rows, wanted[-len(rows):]):
                    for name in ("predicted_first", "predicted_second"):
                        self.assertAlmostEqual(float(row[name]), float(other[name]), delta=1e-5)

    def test_hdf5_without_targets(self):
        self.losses(self.fill(hdf5_each("f4")))
        number = self.made

        def bare(directory, _, x, __):
            for i, box in enumerate(x):
                with h5py.File(directory / f"new {i},.h5", "w") as file:
                    file["x"] = box.astype("f4")
        data = self.fill(bare)
        rows, told = self.predictions(self.run_of(number), data)
        self.assertEqual([row["name"] for row in rows], ["new 0,", "new 1,"])
        self.assertNotIn("MAE", told)
        out = self.directory / "p.h5"
        self.done(1, "predict", "--checkpoint", self.run_of(number), "--data", data, "--out", out)
        with h5py.File(out) as file:
            self.assertEqual([name.decode() for name in file["name"]], ["new 0,", "new 1,"])
            self.assertEqual(sorted(file), ["name", "predicted", "sample"])
        missing = halomesh(1, "eval", "--checkpoint", self.run_of(number), "--data", data)
        self.assertIn("has no dataset /y, only x", missing.err)

    def test_every_format_without_targets(self):
        wanted = self.losses(self.fill(hdf5_each("i2")))
        self.assertEqual(len(wanted), 3)
        number = self.made

        def universe(directory, _, x, __):
            with h5py.File(directory / "all.h5", "w") as file:
                file["full"] = x[0][..., None].astype("i2")

        def labelled(directory, _, x, __):  # labels are no targets of this network
            for i, box in enumerate(x):
                with h5py.File(directory / f"box_{i}.h5", "w") as file:
                    file["x"], file["labels"] = box.astype("i2"), box % 3
        rows = []
        for write, told in ((tfrecords(lambda x, _: {"x": x.astype("<i2").tobytes()}), "feature y (targets) is missing"),
                            (labelled, "has no dataset /y"), (universe, "has no dataset /unitPar")):
            data = self.fill(write)
            found, text = self.predictions(self.run_of(number), data)
            self.assertNotIn("MAE", text)
            rows.append([row["predicted_0"] for row in found])
            missing = halomesh(1, "eval", "--checkpoint", self.run_of(number), "--data", data)
            self.assertIn(told, missing.err)
        self.assertEqual(rows[0], rows[1])
        self.assertEqual(rows[2], rows[0][:1])
        nowhere = self.directory / "nowhere"
        nowhere.mkdir()
        told = halomesh(1, "predict", "--checkpoint", self.run_of(number), "--data", nowhere, "--out",
                        self.directory / "p.csv")
        self.assertIn("./*.npy", told.err)


class Ranges(Scene):
    def test_targets_beyond_the_outputs_are_refused(self):
        for write, options in ((hdf5_each("f4"), ()), (npy_each("f4"), ("--targets-from", "rows.txt"))):
            for stage in ((), ("--stage-dir", self.directory)):
                told = " ".join(self.refusal(self.fill(in_units(write)), *options, *stage).split())
                self.assertRegex(told, "target 0 is (39|40)[.0-9]*, expected a number from -1.2 to 1.2")
                self.assertIn("add --scale-targets", told)

    def test_scaled_targets_train_alike_in_any_units(self):
        plain, wide = self.fill(hdf5_each("f8", "f8")), self.fill(in_units(hdf5_each("f8", "f8")))
        narrow = self.losses(plain, "--scale-targets")
        # A target near 40 is rounded by 2^-24 of it, some 5e-6 of the scaled range.
        for loss, other in zip(narrow, self.losses(wide, "--scale-targets")):
            self.assertAlmostEqual(loss, other, delta=5e-5 * abs(loss))

    def test_scores_and_predictions_are_in_the_units_of_the_targets(self):
        data = self.fill(in_units(hdf5_each("f4")))
        events = self.losses(data, "--scale-targets", "--epochs", 3)
        self.assertEqual(len(events), 9)
        number = self.made
        for ranks, parts in ((1, "1x1x1"), (2, "2x1x1")):
            rows, told = self.predictions(self.run_of(number), data, "--parts", parts, ranks=ranks)
            self.assertIn("2 predictions in", told)
            self.assertIn(", MAE ", told)
            self.assertEqual([row["name"] for row in rows], ["box_0", "box_1"])
            errors = [abs(float(row[f"predicted_{t}"]) - float(row[f"target_{t}"])) for row in rows for t in range(2)]
            self.assertTrue(all(38 < float(row["predicted_0"]) < 42 for row in rows), rows)
            self.assertTrue(all(-0.51 < float(row["predicted_1"]) < -0.48 for row in rows), rows)
            mae = self.evaluation(self.run_of(number), data, "--parts", parts, ranks=ranks)[0]["mae"]
            self.assertAlmostEqual(mae, sum(errors) / len(errors), delta=1e-4)
        first = max((self.run_of(number) / "checkpoints").iterdir())
        self.losses(data, "--scale-targets", "--init-from", first)
        told = self.refusal(data, "--init-from", first)
        self.assertIn("its network has scaled targets", told)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "no torch; make test TORCH=1 installs it")
    def test_the_pytorch_module_speaks_in_these_units(self):
        import torch
        import halomesh as package
        data = self.fill(in_units(hdf5_each("f4")))
        self.losses(data, "--scale-targets")
        net = package.torch_module(self.run_of())
        rows, _ = self.predictions(self.run_of(), data)
        for number, row in enumerate(rows):
            with h5py.File(data / "validation" / f"box_{number}.h5") as file:
                box = torch.from_numpy(file["x"][()]).permute(3, 0, 1, 2)[None]
            with torch.no_grad():
                for target, value in enumerate(net(box)[0].tolist()):
                    self.assertAlmostEqual(value, float(row[f"predicted_{target}"]), delta=1e-4)

    def test_a_network_that_learns_nothing_is_told(self):
        data = self.fill(hdf5_each("f4"))
        self.losses(data, "--lr", 0, "--epochs", 4, told="three validations in a row have the MAE")
        self.losses(data, "--lr", 0, "--epochs", 4, told="worse than always giving its mean")

    def test_all_predictions_alike_are_told(self):
        def dark(directory, split, x, y):
            hdf5_each("f4")(directory, split, x * 0, y)
        self.losses(self.fill(dark), "--epochs", 4, told="have the same prediction")


if __name__ == "__main__":
    sys.exit(run())
