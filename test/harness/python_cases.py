# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of a Python suite and prints their tally; hand-made files of runs for them.

A suite: derives classes from unittest.TestCase and ends with `sys.exit(run())`.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("HALOMESH_SOURCE", pathlib.Path(__file__).parents[2]))
PROGRAM = os.environ.get("HALOMESH", str(SOURCE / "build" / "halomesh"))
sys.path.insert(0, str(SOURCE / "python"))


def run():
    """Runs the cases of the suite that is the main program."""
    result = unittest.TextTestRunner(sys.stdout, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    failed = len(result.failures) + len(result.errors)
    for _, why in result.skipped:
        print(f"skipped: {why}")
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if result.wasSuccessful() and result.testsRun else 1


def needs(*modules):
    """Ends a suite, its cases counted as skipped, where one of the modules is missing."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            print(f"skipped: no module {name}; make deps installs it\n0 passed, 0 failed, 1 skipped")
            sys.exit(0)


class Outcome:
    """What a command of the package printed, and how it ended."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr


def command(*words, program=(sys.executable, str(SOURCE / "python" / "halomesh")), cwd=None, **environment):
    done = subprocess.run([*program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=120, check=False, cwd=cwd, env={**os.environ, **environment})
    return Outcome(done)


class Scene(unittest.TestCase):
    """A case with a directory of its own."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="halomesh-")
        self.addCleanup(holder.cleanup)
        self.directory = pathlib.Path(holder.name)

    def put(self, name, content):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def put_run(self, name, metrics="", record=None, log=None):
        """The directory of a run with its files, but those that are None."""
        for file, content in (("run.json", record), ("metrics.jsonl", metrics), ("mllog.txt", log)):
            if content is not None:
                self.put(f"{name}/{file}", content)
        return self.directory / name

    def assert_close(self, a, b, places=9):
        self.assertAlmostEqual(a, b, places)


def line(event, **values):
    return json.dumps({"event": event, **values}) + "\n"


def step_line(step, epoch, loss, seconds, time=0.0):
    return line("step", step=step, epoch=epoch, loss=loss, lr=0.001 if epoch == 0 else 0.0005, seconds=seconds,
                **({"time": time} if time > 0 else {}))


def eval_line(epoch, mae, seconds, time=0.0):
    return line("eval", epoch=epoch, mae=mae, loss=0.1, samples=4, seconds=seconds, **({"time": time} if time > 0 else {}))


def run_record(replicas, parts, ranks, batch, options=(), **more):
    """run.json of a run on `replicas` of `parts`."""
    return {"program": "halomesh", "version": "0.1.0", "git_commit": "abc", "started": "2026-11-22T10:00:00Z",
            "compiler": "GCC", "mpi": "Open MPI", "onednn": "2.7",
            "options": {"model": "cosmoflow", "batch": str(batch), "target-mae": "0.124", "precision": "fp32",
                        "lr": "0.001", **dict(options)},
            "machine": {"cpu": "A64FX", "sockets": 1},
            "mesh": {"ranks": ranks, "replicas": replicas, "parts": parts, "threads": 2}, "nodes": 2,
            "samples": {"training": 8, "validation": 4}, **more}


def log_line(seconds, key, value=None, **metadata):
    return ":::MLLOG " + json.dumps({"namespace": "", "time_ms": round(1e3 * seconds), "event_type": "x", "key": key,
                                     "value": value, "metadata": metadata}) + "\n"


def log_text(staging=0.0, training=10.0, evaluation=2.0, rest=0.0, epochs=2, batch=4, last_mae=0.12):
    """A log in the order of the v0.7 reference: staging from the start on, then epochs of `training + evaluation`
    seconds, then `rest`; every epoch but the last has an MAE of 0.2."""
    now, text = 1.6e9, ""

    def add(key, value=None, **metadata):
        nonlocal text
        text += log_line(now, key, value, **metadata)
    add("run_start")
    for key, value in (("global_batch_size", batch), ("train_samples", 8), ("eval_samples", 4)):
        add(key, value)
    if staging > 0:
        add("staging_start")
        now += staging
        add("staging_stop")
    for epoch in range(epochs):
        add("epoch_start", epoch_num=epoch)
        now += training
        add("eval_start", epoch_num=epoch)
        now += evaluation
        add("eval_stop", epoch_num=epoch)
        add("epoch_stop", epoch_num=epoch)
        add("eval_error", last_mae if epoch + 1 == epochs else 0.2, epoch_num=epoch)
    now += rest
    add("run_stop", status="success")
    return text
