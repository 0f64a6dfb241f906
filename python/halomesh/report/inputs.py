# SPDX-License-Identifier: Apache-2.0
"""The files that a report is about. What cannot be read becomes a problem that the page names."""
import csv
import dataclasses
import gzip
import json
import math
import pathlib
import re
import zlib
from typing import NamedTuple

from halomesh import mlperf, records
from halomesh.errors import Error, UsageError
from halomesh.records import number, text
from halomesh.report.runs import Numbers, ReportedRun

GIVE = "give a run's directory, or a file of train --trace, bench --json, scaling or predict"
GIVE_PREDICTIONS = "give a file written by halomesh predict"
GIVE_TRACE = "give a file written by halomesh train --trace"
TRACE_BYTES = 2 << 30  # of text


class Bench(NamedTuple):
    """A file of bench --json or scaling."""

    name: str
    record: dict

    @property
    def runs(self):
        return self.record["runs"]


class Predictions(NamedTuple):
    """A file of predict: for each output a list of predictions, and one of targets."""

    name: str
    outputs: list  # their names, or numbers from 0
    predicted: list
    target: list
    are_classes: bool = False  # outputs are labels, predicted by their probabilities
    classes: list = []  # the names of the classes of one label


class TraceSlice(NamedTuple):
    """Times in us, after the step's earliest begin on any rank."""

    rank: int
    phase: str
    layer: str
    begin: float
    end: float


@dataclasses.dataclass
class Trace:
    """The first traced step in a file of train --trace."""

    name: str
    step: int
    clock_error: float  # us
    dropped: int
    ranks: list  # (rank, name), ascending
    slices: list


@dataclasses.dataclass
class Results:
    """Runs of one submission in a file of results."""

    cells: list  # division, system, submission, software, processors, accelerators
    runs: list


class Configuration(NamedTuple):
    """A mesh and batch size that did not run."""

    replicas: int
    parts: str
    batch: int

    @property
    def ranks(self):
        return self.replicas * math.prod(map(int, self.parts.split("x")))


@dataclasses.dataclass
class Input:
    target: float = 0.124  # validation MAE, for runs that do not record their own
    shows_published: bool = True
    predict: list = dataclasses.field(default_factory=list)
    epochs_to_target: tuple = None  # mean and deviation
    command: str = ""
    runs: list = dataclasses.field(default_factory=list)
    benches: list = dataclasses.field(default_factory=list)
    predictions: list = dataclasses.field(default_factory=list)
    traces: list = dataclasses.field(default_factory=list)
    results: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    def is_empty(self):
        return not (self.runs or self.benches or self.predictions or self.traces or self.results)

    def add(self, path):
        path = pathlib.Path(path)
        try:
            if not path.exists():
                raise Error(f"{path} does not exist", GIVE)
            if path.is_dir():
                self._add_directory(path)
            else:
                self._add_file(path)
        except (Error, OSError) as error:
            self.problems.append(str(error))
        return self

    def _add_directory(self, path):
        log, run = path / "mllog.txt", None
        if log.exists() and not any((path / name).exists() for name in ("run.json", "metrics.jsonl")):
            run = mlperf.read_run(log, 0.0 if self.target == 0.124 else self.target)
            run.name = path.name or path.resolve().name
            self.runs.append(Numbers(None, run, self.target))
            return
        files = ReportedRun(path)
        self.problems += files.problems()
        if log.exists():
            try:
                run = mlperf.read_run(log, records.target_of(files.record) or self.target,
                                      records.duration_of(files.record))
            except Error as error:
                self.problems.append(str(error))
        self.runs.append(Numbers(files, run, self.target))
        if not files.steps and not (run and run.finished):
            self.problems.append(f"{path}: no step has been recorded")

    def _add_file(self, path):
        with records.open_regular(path) as file:
            head = file.read(4096)
        if path.suffix == ".gz" or b"traceEvents" in head:
            self.traces.append(read_trace(path))
        elif path.suffix in (".h5", ".hdf5") or head.startswith(b"sample,"):
            self.predictions.append(read_predictions(path))
        elif path.suffix == ".csv":
            self.results += read_results(path)
        elif mlperf.TOKEN.encode() in head:
            run = mlperf.read_run(path, 0.0 if self.target == 0.124 else self.target)
            run.name = path.stem
            self.runs.append(Numbers(None, run, self.target))
        elif path.suffix == ".json":
            self.benches.append(read_bench(path))
        else:
            raise Error(f"{path}: not a file that a report can show", GIVE)


def read_bench(path):
    record = records.parsed(records.read_text(path))
    if not records.items(record, "runs"):
        raise Error(f"{path}: not a file of bench --json or scaling, or one without runs", GIVE)
    record["runs"] = records.items(record, "runs")
    for run in record["runs"]:
        if not (math.isfinite(number(run, "mean_step_seconds"))
                and math.isfinite(number(run, "samples_per_second", "median"))):
            raise Error(f"{path}: a run without its step time", GIVE)
    return Bench(path.stem, record)


def read_trace(path):
    """Reads Chrome trace JSON, gzipped (of one or several members) or not."""
    with records.open_regular(path) as raw:
        magic = raw.read(2)
        raw.seek(0)
        try:
            with gzip.open(raw) if magic == b"\x1f\x8b" else raw as file:
                data = file.read(TRACE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise Error(f"{path}: damaged gzip data ({error})", GIVE_TRACE) from None
    if len(data) > TRACE_BYTES:
        raise Error(f"{path}: more than {TRACE_BYTES} bytes of events", "trace fewer steps or ranks")
    steps, slices, names = {}, {}, {}

    def take(event):
        """Takes what it needs while the text is parsed, so that the events are never all in memory."""
        if "ph" not in event:
            return event
        rank, step = number(event, "pid"), number(event, "args", "step")
        begin, length = number(event, "ts"), number(event, "dur")
        if text(event, "ph") == "M" and text(event, "name") == "process_name":
            names[rank] = text(event, "args", "name")
        if text(event, "ph") != "X" or number(event, "tid") != 0:
            return None
        if rank >= 0 and step >= 0 and length >= 0 and math.isfinite(begin):
            kept = steps if text(event, "name") == "step" else slices
            kept.setdefault(step, []).append(TraceSlice(
                int(rank), text(event, "name"), text(event, "args", "layer"), begin, begin + length))
        return None
    try:
        root = json.loads(data, object_hook=take)
    except (ValueError, RecursionError):
        raise Error(f"{path}: not JSON", GIVE_TRACE) from None
    if not steps:
        raise Error(f"{path}: no traced step", GIVE_TRACE)
    step, origin = min(steps), min(each.begin for each in steps[min(steps)])
    moved = sorted((each._replace(begin=each.begin - origin, end=each.end - origin)
                    for each in slices.get(step, [])), key=lambda each: (each.begin, -each.end))
    ranks = sorted((each.rank, names.get(each.rank, f"rank {each.rank}")) for each in steps[step])
    about = records.at(root, "otherData")
    return Trace(path.name, int(step), records.finite(about, "clock_error_us"),
                 max(records.count(about, "dropped_events"), 0), ranks, moved)


def read_predictions(path):
    names, predicted, target, classes = _of_text(path) if path.suffix == ".csv" else _of_hdf5(path)
    if not predicted or not predicted[0]:
        raise Error(f"{path}: no sample", GIVE_PREDICTIONS)
    if len(names) != len(predicted):
        names = range(len(predicted))
    if classes and not all(float(value).is_integer() and 0 <= value < max(len(classes), 2)
                           for values in predicted + target for value in values):
        raise Error(f"{path}: a label that is not of a class", GIVE_PREDICTIONS)
    return Predictions(path.name, [str(name) for name in names], predicted, target, bool(classes),
                       classes if len(predicted) == 1 and len(classes) > 1 else ["0", "1"])


def _of_text(path):
    def fail(row, what):
        raise Error(f"{path}: line {row}: {what}", GIVE_PREDICTIONS)
    rows = list(csv.reader(records.read_text(path).splitlines()))
    header = rows[0] if rows else []
    named = {kind: [at for at, name in enumerate(header) if name.startswith(f"{kind}_")]
             for kind in ("predicted", "target", "probability")}
    if header[:1] == ["sample"] and not named["target"]:
        fail(1, "no targets, which a report compares predictions with")
    if header[:1] != ["sample"] or not named["predicted"] or len(named["predicted"]) != len(named["target"]):
        fail(1, "not the header of predictions (sample,name,predicted_0,..,target_0,..)")
    columns = {at: [] for at in named["predicted"] + named["target"]}
    for number_of_row, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            fail(number_of_row, f"{len(row)} values instead of {len(header)}")
        for at, column in columns.items():
            try:
                column.append(float(row[at]))
            except ValueError:
                fail(number_of_row, f"'{row[at]}' is not a number")
    names = {kind: [header[at].removeprefix(f"{kind}_") for at in named[kind]] for kind in named}
    return (names["predicted"], *([columns[at] for at in named[kind]] for kind in ("predicted", "target")),
            names["probability"])


def _of_hdf5(path):
    import h5py
    found, names, classes = [], [], []
    try:
        with h5py.File(path, "r") as file:
            for name in ("predicted", "target"):
                if name not in file:
                    raise Error(f"{path}: no dataset /{name}", GIVE_PREDICTIONS)
                if file[name].ndim != 2:
                    raise Error(f"{path}: /{name} is not a matrix", GIVE_PREDICTIONS)
                found.append(file[name][()].T.astype("f8").tolist())
            names = _names_of(file["predicted"])
            classes = file["probability"] if "probability" in file else None
            if classes is not None:
                classes = _names_of(classes) or [str(c) for c in range(classes.shape[-1])]
    except OSError as error:
        raise Error(f"{path}: {error}", GIVE_PREDICTIONS) from None
    if [len(column) for column in found[0]] != [len(column) for column in found[1]]:
        raise Error(f"{path}: predictions and targets differ in size", GIVE_PREDICTIONS)
    return names, *found, classes or []


def _names_of(dataset):
    names = dataset.attrs.get("names", "")
    names = names.decode("utf-8", "replace") if isinstance(names, bytes) else str(names)
    return names.split(",") if names else []


def read_results(path):
    """Comma-separated values with a line per run. Columns by name, in any order: submission and minutes
    (time to solution) are needed; division, system, software, processors, accelerators, epochs and
    reached ("no" for a run that missed the target) may be there."""
    rows = csv.DictReader(records.read_text(path).splitlines())
    if not {"submission", "minutes"} <= set(rows.fieldnames or []):
        raise Error(f"{path}: neither predictions nor results (columns submission and minutes)",
                    "give a file of halomesh predict, or results with a line per run")
    found = {}
    for row in rows:
        place = f"{path}: line {rows.line_num}"
        try:
            minutes = float(row["minutes"] or "nan")
        except ValueError:
            minutes = math.nan
        if not 0 <= minutes < math.inf:
            raise Error(f"{place}: '{row['minutes']}' is not a number of at least 0", "give minutes as plain numbers")
        cells = [row.get(name) or "" for name in ("division", "system", "submission", "software", "processors",
                                                  "accelerators")]
        found.setdefault(cells[2], Results(cells, [])).runs.append(
            mlperf.Run(place, "missed" if row.get("reached") == "no" else "reached", minutes=minutes))
    if not found:
        raise Error(f"{path}: no result", "give results with a line per run")
    return list(found.values())


def parse_configurations(listed):
    """"512x4x4x1/512": replicas, parts in d, h and w, and the global batch size; several with commas."""
    found = []
    for one in listed.split(",") if listed else []:
        match = re.fullmatch(r"([1-9]\d{0,9})x([1-9]\d{0,5}x[1-9]\d{0,5}x[1-9]\d{0,5})/([1-9]\d{0,11})", one)
        if not match or int(match[1]) > 10**9:
            raise UsageError(f"--predict: '{one}' is not a configuration",
                             "write REPLICASxPARTS/BATCH, e.g. 512x4x4x1/512")
        found.append(Configuration(int(match[1]), match[2], int(match[3])))
    return found


def parse_epochs(given):
    """"92" or "92+-5"."""
    mean, sign, deviation = given.partition("+-")
    try:
        values = float(mean), float(deviation) if sign else 0.0
    except ValueError:
        values = (-1.0, 0.0)
    if not (0 < values[0] < math.inf and 0 <= values[1] < math.inf):
        raise UsageError(f"--epochs-to-target: '{given}' is not a number of epochs", "write N or N+-S, e.g. 92+-5")
    return values
