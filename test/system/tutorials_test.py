#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the pages in docs/tutorials from top to bottom, and checks what they promise.

Counts a page as skipped, and says why, where NumPy, NiBabel or what `report` needs is missing. Environment: HALOMESH (the
program), HALOMESH_SOURCE (the source tree), MPIRUN (launcher with its flags), SHORT=1 (leave out).
"""
import csv
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import PROGRAM, SOURCE, run  # noqa: E402


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"no {', '.join(missing)}; make deps installs it")


def commands_of(page):
    """The lines of code that begin with a program's name."""
    for line in (SOURCE / "docs" / "tutorials" / page).read_text().splitlines():
        if line.startswith(("    python3 ", "    mpirun ", "    sed ", "    build/halomesh ")):
            yield line.strip()


class Tutorials(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        (self.directory / "docs").symlink_to(SOURCE / "docs")

    def follow(self, page, most):
        """Runs the commands of a page, at most so many beside the one that makes the data. Returns what each printed."""
        commands, printed = list(commands_of(page)), []
        self.assertTrue(0 < len(commands) <= most + 1, commands)
        for command in commands:
            line = re.sub("^mpirun", os.environ.get("MPIRUN", "mpirun"), command)
            line = re.sub("^python3", shlex.quote(sys.executable), line)
            line = line.replace("build/halomesh", shlex.quote(os.path.abspath(PROGRAM)))
            done = subprocess.run(line, shell=True, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False, timeout=1200)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-3000:]}")
            printed.append(done.stdout)
        return printed

    @needs("numpy", "matplotlib", "jinja2")
    def test_numbers_from_boxes(self):
        self.follow("boxes.md", 4)
        quality = {each["name"]: each["r2"] for each in json.loads((self.directory / "quality.json").read_text())["targets"]}
        self.assertEqual(list(quality), ["amplitude", "slope"])
        self.assertTrue(all(r2 >= 0.95 for r2 in quality.values()), quality)
        with (self.directory / "predicted.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["name"] for row in rows], [f"box_{i:03}" for i in range(4, 60, 5)])
        self.assertTrue(all(-2.7 < float(row["predicted_slope"]) < -0.3 for row in rows), rows)
        self.assertIn("<svg", (self.directory / "report.html").read_text())

    @needs("numpy", "h5py", "matplotlib", "jinja2")
    def test_classes_of_volumes(self):
        self.follow("classes.md", 5)
        whole, cut = (json.loads((self.directory / f"{name}.json").read_text()) for name in ("whole", "cut"))
        for name in ("accuracy", "balanced_accuracy", "auc", "confusion"):
            self.assertEqual(whole[name], cut[name])
        self.assertGreater(whole["accuracy"], whole["baselines"]["majority"]["accuracy"] + 0.4)
        with (self.directory / "predicted.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(sum(row["predicted_class"] == row["target_class"] for row in rows), round(whole["accuracy"] * len(rows)))
        self.assertIn("as shell", (self.directory / "report.html").read_text())

    @needs("numpy", "nibabel", "matplotlib")
    def test_organs_from_scans(self):
        import nibabel
        import numpy
        self.follow("scans.md", 4)
        mask, truth = (nibabel.load(self.directory / path) for path in ("masks/new_patient.nii", "data/truth.nii.gz"))
        self.assertEqual(mask.affine.tolist(), truth.affine.tolist())
        found, right = numpy.asarray(mask.dataobj), numpy.asarray(truth.dataobj)
        for label, least in ((1, 0.9), (2, 0.8)):
            dice = 2 * ((found == label) & (right == label)).sum() / ((found == label).sum() + (right == label).sum())
            self.assertGreaterEqual(dice, least)
        self.assertTrue((self.directory / "picture.png").read_bytes().startswith(b"\x89PNG"))

    def test_how_many_nodes(self):
        _, _, *forecasts, _ = self.follow("nodes.md", 4)
        steps = []
        for precision, printed in zip(("fp32", "bf16"), forecasts):
            plan = json.loads((self.directory / f"{precision}.json").read_text())
            best, least = plan["meshes"][0], plan["least_nodes_per_sample"]
            self.assertEqual((plan["precision"], plan["nodes"], plan["batch"], plan["input"]), (precision, 64, 64, "256x256x256x1"))
            self.assertEqual((least["nodes"], least["parts"], best["parts"]), (1, "8x1x1", "8x1x1"))
            self.assertEqual(8 * best["step"]["memory_bytes"], least["memory_bytes_per_node"])
            self.assertTrue(20 < least["memory_bytes_per_node"] / 2**30 < 40, least)
            self.assertEqual(best["step"]["kernel_shares"]["measured"], 0)
            self.assertEqual(plan["numbers"]["peak-bf16-gflops"]["origin"], "derived")
            self.assertEqual(plan["numbers"]["kernel-efficiency-bf16"]["origin"], "assumed")
            self.assertIsNone(best["epoch_s"])
            self.assertNotIn("stands in", printed)
            self.assertIn("\nLeast nodes per sample: 1, --parts 8x1x1: ", printed)
            self.assertIn(f"\nStep of 8x1x1 x 64 in {precision}: ", printed)
            steps.append(best["step"]["step_s"])
        self.assertAlmostEqual(steps[1] / steps[0], 0.55, delta=0.02)
        script = (self.directory / "job.sh").read_text()
        for wanted in ("--nodes=64", "--ntasks-per-node=8", "--cpus-per-task=14", "--parts 8x1x1"):
            self.assertIn(wanted, script)
        *_, line = commands_of("nodes.md")
        line = line.replace("build/halomesh", shlex.quote(os.path.abspath(PROGRAM)))
        for wanted, code, old, new in (
                ("GiB per node, but a node of amx_site has 480", 2, "--batch 64 --precision bf16 --parts 8x1x1",
                 "--batch 2048 --precision bf16"),
                ("the 112 threads of a rank are spread over NUMA domains", 0, " > ", " --ranks-per-node 1 > ")):
            self.assertIn(old, line)
            told = subprocess.run(line.replace(old, new), shell=True, cwd=self.directory, capture_output=True, text=True, check=False)
            self.assertEqual(told.returncode, code, told.stderr)
            self.assertIn(wanted, told.stderr)


if __name__ == "__main__":
    sys.exit(run())
