# SPDX-License-Identifier: Apache-2.0
"""Reads MLPerf logs and scores their runs: the command `mlperf-summary`."""
import dataclasses
import hashlib
import json
import math
import pathlib
import sys

from halomesh import outputs, records
from halomesh.errors import Error, UsageError, plain
from halomesh.options import Options, real
from halomesh.texts import aligned, plural

TOKEN = ":::MLLOG"
MOST_MS = 1e15
# The rules' quality of each benchmark; a log that names no benchmark is taken for CosmoFlow's.
TARGETS = {"cosmoflow": 0.124, "deepcam": 0.82}
SIZES = {"global_batch_size": "batch", "train_samples": "training_samples", "eval_samples": "validation_samples"}


@dataclasses.dataclass
class Run:
    """One run. Times in minutes or seconds, as named."""

    name: str
    end: str = "unfinished"  # reached: stopped successfully after a validation that reached the target; missed
    epochs: int = 0  # started
    best_error: float = math.nan
    best_accuracy: float = math.nan
    staging_s: float = 0.0  # sum over all jobs of the run
    minutes: float = None  # run_start to run_stop
    resumed: int = 0
    evaluation_s: float = 0.0
    finished: list = dataclasses.field(default_factory=list)  # (seconds, of that validation) of each epoch
    batch: int = 0  # 0: not in the log, as the two below
    training_samples: int = 0
    validation_samples: int = 0
    benchmark: str = ""
    status: str = ""  # of run_stop
    settings: dict = dataclasses.field(default_factory=dict)  # all other single values but the seed
    target: float = 0.0

    @property
    def kind(self):
        return "iou" if math.isfinite(self.best_accuracy) else "mae"

    @property
    def best(self):
        return self.best_accuracy if self.kind == "iou" else self.best_error


class _Reader:
    """Takes the lines of one log."""

    def __init__(self, run):
        self.run, self.place = run, run.name
        self._starts, self._epochs, self._epoch_evaluation = {}, set(), 0.0

    def fail(self, what):
        raise Error(f"{self.place}: {what}", "give the complete log of one run")

    def take(self, line):
        key, time = records.at(line, "key"), records.number(line, "time_ms")
        if not isinstance(key, str) or math.isnan(time):
            self.fail("not a line of an MLPerf log")
        if abs(time) > MOST_MS:
            self.fail(f"a time_ms of {time:g}")
        metadata, run = records.at(line, "metadata"), self.run
        if key in ("run_start", "run_stop"):
            if key in self._starts:
                self.fail(f"a second {key}")
            self._starts[key] = time
            if key == "run_stop":
                run.status = records.text(metadata, "status")
        elif key.endswith(("_start", "_stop")):
            self._take_interval(key, time, metadata)
        elif key in SIZES:
            setattr(run, SIZES[key], min(max(records.count(line, "value"), 0), 10**12))
        elif key == "eval_error" and records.number(line, "value") > 0:
            if not run.best_error <= records.number(line, "value"):
                run.best_error = records.number(line, "value")
        elif key == "eval_accuracy" and math.isfinite(records.number(line, "value")):
            if not run.best_accuracy >= records.number(line, "value"):
                run.best_accuracy = records.number(line, "value")
        elif key == "resumed":
            run.resumed += 1
        elif key == "submission_benchmark":
            run.benchmark = records.text(line, "value")
        elif key.startswith(("opt_", "submission_", "number_of_")):
            run.settings[key] = line.get("value")

    def _take_interval(self, key, time, metadata):
        """Starts and ends of staging, epochs and validations; one without the other is left out. The key
        decides: some v0.7 logs use the same event_type for start and end."""
        what, _, end = key.rpartition("_")
        if end == "start":
            self._starts[what] = time
            if what == "epoch":
                epoch = records.at(metadata, "epoch_num")
                if not isinstance(epoch, int):
                    self.fail("an epoch_start without epoch_num")
                self._epochs.add(epoch)
                self._epoch_evaluation = 0.0
        elif what in self._starts:
            # Less than nothing passes only where the clock of the day is set back meanwhile.
            seconds = max(time - self._starts.pop(what), 0.0) * 1e-3
            if what == "staging":
                self.run.staging_s += seconds
            elif what == "eval":
                self.run.evaluation_s += seconds
                self._epoch_evaluation += seconds
            elif what == "epoch":
                self.run.finished.append((seconds, self._epoch_evaluation))

    def finish(self, target, measured):
        run, self.place = self.run, self.run.name
        if "run_start" not in self._starts:
            self.fail("no run_start: not the log of an MLPerf run")
        run.epochs = len(self._epochs)
        own = "deepcam" if run.kind == "iou" else "cosmoflow"
        # The rules have no target for another benchmark's score.
        run.target = target or (TARGETS[own] if run.benchmark == own or run.benchmark not in TARGETS else 0.0)
        if "run_stop" not in self._starts:
            return
        run.minutes = (self._starts["run_stop"] - self._starts["run_start"]) / 60e3
        if run.minutes < 0:
            if measured is None or not measured >= 0:
                raise Error(f"{run.name}: the run stops before it starts: the clock was set back meanwhile",
                            "give the --out directory of the run, whose run.json has its duration")
            run.minutes = measured / 60
        is_good = records.reaches(run.kind, run.best, run.target)
        run.end = "reached" if is_good and run.status == "success" else "missed"


def read_run(path, target=0.0, measured=None):
    """The run of a log; lines without ":::MLLOG" are skipped, and launchers may prefix lines with the
    names of ranks. `target` 0: that of the benchmark's rules. `measured`: its duration in seconds by
    another clock. Raises Error naming the file and the line."""
    run = Run(str(path))
    reader = _Reader(run)
    with records.open_regular(path) as file:
        for number, (line, _) in enumerate(records.lines_of(file), 1):
            _, token, rest = line.partition(TOKEN.encode())
            if token:
                reader.place = f"{path}: line {number}"
                reader.take(records.parsed(rest))
    reader.finish(target, measured)
    return run


def score(runs):
    """The olympic mean in minutes: of all runs but the fastest and the slowest. A run that missed its
    target counts as the slowest; with more than one of them, or fewer than three runs, there is no score,
    None, but a reason. Source: github.com/mlcommons/training_policies, hpc_training_rules."""
    minutes = sorted(run.minutes for run in runs if run.end == "reached")
    missed = len(runs) - len(minutes)
    if len(runs) < 3:
        return None, f"{plural(len(runs), 'run')}, at least 3 needed"
    if missed > 1:
        return None, f"{plural(missed, 'run')} missed the target (at most 1 allowed)"
    kept = minutes[1:] if missed else minutes[1:-1]
    return math.fsum(kept) / (len(runs) - 2), ""


def log_of(path):
    """The log, which may also be given as the directory of a run; and the run's duration, if on record."""
    path = pathlib.Path(path)
    if not path.is_dir():
        return path, None
    record = path / "run.json"
    known = records.parsed(records.read_text(record, records.RUN_BYTES)) if record.exists() else None
    return path / "mllog.txt", records.duration_of(known)


def distinct(paths):
    """The logs, each once: a copy of a log is no further run. Says what is left out."""
    seen = {}
    for path in paths:
        log, measured = log_of(path)
        if not log.exists():
            raise Error(f"no log {log}", "give logs or --out directories")
        with records.open_regular(log) as file:
            digest = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        first = seen.setdefault(digest.digest(), (log, measured))[0]
        if first is not log:
            print("WARNING: " + plain(f"{log} is the same log as {first}: counted once"), file=sys.stderr)
    return seen.values()


def read_runs(paths, target):
    runs = [read_run(log, target, measured) for log, measured in distinct(paths)]
    first = runs[0]
    for run in runs:
        if (run.benchmark or first.benchmark) != (first.benchmark or run.benchmark) or run.kind != first.kind:
            raise UsageError(
                f"{run.name} is a log of {run.benchmark or 'another benchmark'}, "
                f"{first.name} of {first.benchmark or 'another'}", "give the logs of one benchmark")
    return runs


def number(value, digits):
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else "-"


def print_table(runs):
    kind, target = runs[0].kind, runs[0].target
    best = "best IoU" if kind == "iou" else "least MAE"
    print(aligned(["end", "epochs", best, "staging s", "run min", "resumed", "log"], "<>>>>><",
                  [[run.end, str(run.epochs), number(run.best, 5), number(run.staging_s, 1),
                    number(run.minutes, 2), str(run.resumed), plain(run.name)] for run in runs]))
    for run in runs:
        if run.end == "missed" and records.reaches(kind, run.best, target):
            print(plain(f"{run.name}: its {records.SCORES[kind]} reached the target, but it stopped with the "
                        f"status '{run.status}': only 'success' counts"))
    mean, reason = score(runs)
    missed = sum(run.end != "reached" for run in runs)
    print(f"\n{plural(len(runs), 'run')}, {missed} missed the {records.SCORES[kind]} of {target:g}; "
          + (f"no score: {reason}" if mean is None else f"olympic mean {mean:.2f} min"))


def record_of(runs):
    kind, (mean, reason) = runs[0].kind, score(runs)

    def known(value):
        return value if value is not None and math.isfinite(value) else None
    return {"target_" + kind: runs[0].target, "missed": sum(run.end != "reached" for run in runs),
            "olympic_minutes": mean, "no_score_because": reason or None,
            "runs": [{"log": run.name, "end": run.end, "epochs": run.epochs,
                      "best_iou" if kind == "iou" else "least_mae": known(run.best),
                      "staging_s": run.staging_s, "run_minutes": known(run.minutes), "resumed": run.resumed}
                     for run in runs]}


def main(words):
    values = Options(
        "mlperf-summary [options] LOG...",
        "Prints the runs of MLPerf logs (or of the --out directories that hold them) of one benchmark and\n"
        "their olympic mean: the mean without the fastest and the slowest run. A run has reached the\n"
        "target when a validation did and it stopped with the status success; one that missed it counts\n"
        "as the slowest.", "halomesh mlperf-summary runs/1 runs/2 runs/3 runs/4 runs/5"
    ).group("Summary").add(
        "target", "SCORE", 0.0, "validation MAE or IoU that a run must reach; 0: 0.124 of CosmoFlow, 0.82 of "
        "DeepCAM", real(0)).add("json", "FILE", "", "also write the summary as JSON").parse(words)
    if values is None:
        return 0
    if not values["arguments"]:
        raise UsageError("no log was given", "give the mllog.txt, or the --out directory, of each run")
    if values["json"]:
        logs = [path for given in values["arguments"] for path in (given, log_of(given)[0])]
        outputs.refuse_to_replace(values["json"], logs, "--json")
    runs = read_runs(values["arguments"], values["target"])
    if values["json"]:
        outputs.write_text(values["json"], json.dumps(record_of(runs), indent=2) + "\n")
    print_table(runs)
    return 0
