# SPDX-License-Identifier: Apache-2.0
"""One run as a report sees it: where its time went, what it reached, and curves that are thinned while they
are read, so that a long run takes no more memory than a short one."""
import dataclasses
import math

from halomesh import mlperf, records
from halomesh.records import finite, number, text
from halomesh.texts import statistics_of

MOST_PIECES = 8192  # of the curves of a run
KINDS = ("compute", "packing", "halo wait", "reduction wait", "input wait", "optimizer", "other")
# Where a run is written or resumed from says nothing of what it does.
PLACES = ("seed", "out", "json", "trace", "resume", "config")


class Piece:
    """Some consecutive steps as one: the least and the largest loss and where they are, the sums."""

    __slots__ = ("least", "most", "lr", "seconds", "steps", "step", "end", "epoch", "starts")

    def __init__(self, step, epoch, loss, lr, seconds, end, starts):
        self.least = self.most = (step, end, loss)
        self.lr, self.seconds, self.steps, self.step, self.end, self.epoch = lr, seconds, 1, step, end, epoch
        self.starts = starts  # step, end and learning rate of the first one

    def join(self, other):
        for mine, worse in (("least", lambda a, b: b < a), ("most", lambda a, b: b > a)):
            kept, new = getattr(self, mine), getattr(other, mine)
            if math.isnan(kept[2]) or worse(kept[2], new[2]):
                setattr(self, mine, new)
        self.lr, self.step, self.end, self.epoch = other.lr, other.step, other.end, other.epoch
        self.seconds += other.seconds
        self.steps += other.steps


class ReportedRun(records.RunFiles):
    """What of a run's lines a report needs."""

    def __init__(self, directory):
        self.forget()
        super().__init__(directory)

    def forget(self):
        self.pieces, self._share = [], 1
        self.steps, self.training_s, self.epoch_seconds = 0, 0.0, {}
        self.first_epoch, self.first_epoch_steps = None, 0
        # (kind, score, epoch, samples, seconds, end) of each; end: seconds since the start of the run
        self.evaluations, self.stage, self._start, self._now = [], None, None, 0.0
        self.confusion = None  # of the last validation of classes of samples: a matrix per label
        self.areas = {}  # balanced_accuracy and auc of that
        self.without_foreground = False  # of validations, so that no score is a success
        self.phases = PhaseSums()

    def _end_of(self, line):
        """Seconds from the run's start to the end of what the line is about: by the time of the line, or,
        in files without it, by the durations."""
        seconds, time = finite(line, "seconds"), finite(line, "time")
        if self._start is None:
            self._start = time - seconds if time > 0 else 0.0
        self._now = time - self._start if time > 0 and self._start > 0 else self._now + seconds
        return self._now

    def take(self, line):
        if line["event"] == "step":
            self._take_step(line)
        elif line["event"] == "eval":
            kind, score = records.evaluation_of(line)
            seconds, epoch = finite(line, "seconds"), records.count(line, "epoch")
            self.evaluations.append((kind, score, epoch, records.count(line, "samples"), seconds,
                                     self._end_of(line)))
            self.confusion = records.at(line, "confusion")
            self.areas = {name: number(line, name) for name in ("balanced_accuracy", "auc")}
            self.without_foreground = self.without_foreground or line.get("empty") is True
        elif line["event"] == "phases":
            self.phases.add(line)
            self.phases.add_layers(line)  # of earlier versions
        elif line["event"] == "layers":
            self.phases.add_layers(line)
        elif line["event"] == "stage":
            self.stage = line

    def _take_step(self, line):
        step, epoch = records.count(line, "step"), records.count(line, "epoch")
        seconds, lr = finite(line, "seconds"), number(line, "lr")
        end = self._end_of(line)
        self.first_epoch = epoch if self.first_epoch is None else self.first_epoch
        self.first_epoch_steps += epoch == self.first_epoch
        self.epoch_seconds[epoch] = self.epoch_seconds.get(epoch, 0.0) + seconds
        self.training_s += seconds
        piece = Piece(step, epoch, number(line, "loss"), lr, seconds, end, (step, end, lr))
        if self.steps % self._share == 0:
            if len(self.pieces) == MOST_PIECES:
                for first, second in zip(self.pieces[::2], self.pieces[1::2]):
                    first.join(second)
                self.pieces[:] = self.pieces[::2]
                self._share *= 2
            self.pieces.append(piece)
        else:
            self.pieces[-1].join(piece)
        self.steps += 1


@dataclasses.dataclass
class Range:
    """Seconds per step over ranks."""

    mean: float = 0.0
    least: float = 0.0
    most: float = 0.0
    slowest: int = -1  # rank; -1: not known

    def add(self, line, weight):
        """A line's range with the weight of its share of all steps."""
        if self.slowest < 0 or weight * finite(line, "max") > self.most:
            self.slowest = _rank(line, "max_rank")
        self.mean += weight * finite(line, "mean")
        self.least += weight * finite(line, "min")
        self.most += weight * finite(line, "max")

    def scaled(self, by):
        return Range(self.mean * by, self.least * by, self.most * by, self.slowest)


def _rank(line, key):
    rank = number(line, key)
    return int(rank) if 0 <= rank < 1e9 else -1


class PhaseSums:
    """The lines of the events "phases" and "layers", put together as they are read: sums over steps
    until total()."""

    def __init__(self):
        self.steps = self.seconds = self.steps_of_rows = 0.0
        self.ranks = self.replicas = 1
        self.step, self.rows, self.kinds = Range(), {}, {kind: Range() for kind in KINDS}
        self.received, self.counters = {}, {}
        self.efficiency = {"load_balance": 0.0, "communication": 0.0, "parallel": 0.0}
        self.limit, self.memory_mean, self.memory_most, self.memory_rank = "", 0.0, 0.0, -1

    def add(self, line):
        steps, mean = finite(line, "steps"), finite(line, "step_seconds", "mean")
        if steps <= 0:
            return
        self.steps += steps
        self.seconds += steps * mean
        self.ranks, self.replicas = max(_rank(line, "ranks"), 1), max(_rank(line, "replicas"), 1)
        self.step.add(records.at(line, "step_seconds"), steps)
        for row in records.items(line, "kinds"):
            self.kinds.setdefault(text(row, "kind"), Range()).add(row, steps)
        for name in self.efficiency:
            self.efficiency[name] += steps * mean * finite(line, "efficiency", name)
        buckets = finite(line, "reduction", "buckets")
        for name, value in (("halo_sent", finite(line, "halo", "sent_bytes")),
                            ("halo_messages", finite(line, "halo", "messages")),
                            ("reduced_bytes", finite(line, "reduction", "bytes")), ("buckets", buckets),
                            ("bucket_seconds", buckets * finite(line, "reduction", "seconds")),
                            ("exposed_seconds", steps * finite(line, "reduction", "exposed_seconds")),
                            ("input_bytes", finite(line, "input", "bytes")),
                            ("input_seconds", finite(line, "input", "seconds")),
                            ("input_wait_seconds", finite(line, "input", "wait_seconds"))):
            self.counters[name] = self.counters.get(name, 0.0) + value
        self.limit = text(line, "limit") or self.limit
        self.memory_mean = max(self.memory_mean, finite(line, "memory_bytes", "mean"))
        if finite(line, "memory_bytes", "max") > self.memory_most:
            self.memory_most = finite(line, "memory_bytes", "max")
            self.memory_rank = _rank(line["memory_bytes"], "max_rank")

    def add_layers(self, line):
        rows, steps = records.items(line, "rows"), finite(line, "steps")
        if steps <= 0 or not rows:
            return
        self.steps_of_rows += steps
        for row in rows:
            key = text(row, "layer"), text(row, "phase")
            self.rows.setdefault(key, Range()).add(row, steps)
            self.received[key] = self.received.get(key, 0.0) + steps * finite(row, "received_bytes")

    def total(self):
        """Means per step; None when no line has a number of steps."""
        return Phases(self) if self.steps > 0 and self.seconds > 0 else None


class Phases:
    """Where the time of a run's steps went: seconds per step over ranks, efficiencies weighted by time;
    counters are sums over steps and ranks."""

    def __init__(self, sums):
        self.steps, self.ranks, self.replicas, self.limit = sums.steps, sums.ranks, sums.replicas, sums.limit
        self.step = sums.step.scaled(1 / sums.steps)
        self.kinds = {kind: each.scaled(1 / sums.steps) for kind, each in sums.kinds.items()}
        # (layer, phase, seconds, bytes received per step over all ranks)
        self.rows = [(*key, each.scaled(1 / sums.steps_of_rows), sums.received[key] / sums.steps_of_rows)
                     for key, each in sums.rows.items()]
        self.load_balance, self.communication, self.parallel = (
            sums.efficiency[name] / sums.seconds for name in ("load_balance", "communication", "parallel"))
        self.halo_sent, self.halo_messages, self.reduced_bytes, self.buckets = (
            sums.counters[name] for name in ("halo_sent", "halo_messages", "reduced_bytes", "buckets"))
        self.bucket_seconds = sums.counters["bucket_seconds"] / (self.buckets or 1)
        self.exposed_seconds = sums.counters["exposed_seconds"] / sums.steps
        self.input_bytes, self.input_seconds, self.input_wait_seconds = (
            sums.counters[name] for name in ("input_bytes", "input_seconds", "input_wait_seconds"))
        self.memory_mean, self.memory_most, self.memory_rank = sums.memory_mean, sums.memory_most, sums.memory_rank

    def useful(self):
        """Seconds per step of useful work: compute and optimizer, mean over ranks."""
        return self.kinds["compute"].mean + self.kinds["optimizer"].mean

    def name_of_rank(self, rank):
        """"5 (replica 1, part 1)": the rank with its place in the mesh."""
        parts = max(self.ranks // self.replicas, 1)
        return f"{rank} (replica {rank // parts}, part {rank % parts})" if rank >= 0 else "-"


def ratio(a, b):
    """a / b; infinite or NaN where b is 0, as nothing was measured."""
    return a / b if b else math.inf if a > 0 else math.nan


class Numbers:
    """The numbers of one run that tables and figures are made of, whatever file they come from.

    T_sol = run_stop - run_start, T_stg, T_ev and T_tr are those of mllog.txt: it covers all jobs of a run.
    Without it they are those of metrics.jsonl, where T_tr is the sum of the steps.
    """

    def __init__(self, files=None, log=None, target=0.0):
        """`files`, a ReportedRun, and `log`, an mlperf.Run, of one run; at least one is there."""
        self.files, self.log = files, log
        self.record = files.record if files else {}
        self.name = files.name if files else log.name
        self.solution = self.best = None  # T_sol: None unless the run has ended
        self.staging = self.training = self.evaluation = self.steps = self.evaluated = self.epochs = 0.0
        self.epoch_s, self.kind, self.has_log = [], "mae", False
        self.phases = files.phases.total() if files else None
        self.without_foreground = files.without_foreground if files else False
        self._read_record()
        if files:
            self._read_epochs()
            self._read_times()
        # The page's target is an MAE.
        self.target = self.target or (target if self.kind == "mae" else 0.0)
        if log:
            self._read_log()
        self.reached = text(self.record, "end", "result") == "target" or (
            self.best is not None and not self.without_foreground
            and records.reaches(self.kind, self.best, self.target)
            and (bool(files) or log.end == "reached"))

    def _read_record(self):
        record = self.record
        self.ranks, self.threads, self.nodes = (
            max(records.count(record, *keys), 0) for keys in (("mesh", "ranks"), ("mesh", "threads"), ("nodes",)))
        self.replicas = max(records.count(record, "mesh", "replicas"), 1)
        self.parts = text(record, "mesh", "parts") or "1x1x1"
        self.cpu, self.model = text(record, "machine", "cpu"), records.option(record, "model")
        self.batch = max(round(records.option_number(record, "batch")), 0)
        self.target = records.target_of(record)
        self.training_samples, self.validation_samples = (
            max(records.count(record, "samples", split), 0) for split in ("training", "validation"))

    def _read_epochs(self):
        seconds, ended = dict(self.files.epoch_seconds), 0
        self.training, self.steps = self.files.training_s, float(self.files.steps)
        for kind, score, epoch, samples, spent, _ in self.files.evaluations:
            self.kind = kind
            self.evaluation += spent
            self.evaluated += samples
            self.validation_samples = self.validation_samples or max(samples, 0)
            if math.isfinite(score) and (self.best is None or records.is_better(kind, score, self.best)):
                self.best = score
            if epoch in seconds:
                seconds[epoch] += spent
                ended = max(ended, epoch + 1)
        per_epoch = self.steps_per_epoch() if self.batch and self.training_samples else 0
        # Without validations the number of steps tells how many epochs there were.
        self.epochs = float(ended or (self.steps / per_epoch if per_epoch else len(seconds)))
        if not self.training_samples and self.batch and ended:
            self.training_samples = round(self.steps / self.epochs) * self.batch
        self.epoch_s = [s for epoch, s in sorted(seconds.items()) if not ended or epoch < ended]

    def _read_times(self):
        self.staging = finite(self.files.stage, "seconds")
        self.ended = isinstance(records.at(self.record, "end"), dict)
        measured = records.duration_of(self.record)
        if measured is not None:
            # A clock that was set back leaves what the lines add up to.
            self.solution = measured if measured >= 0 else self.staging + self.training + self.evaluation

    def _read_log(self):
        log = self.log
        self.batch, self.training_samples = log.batch or self.batch, log.training_samples or self.training_samples
        self.validation_samples = log.validation_samples or self.validation_samples
        if self.best is None and math.isfinite(log.best):
            self.kind, self.best = log.kind, log.best
        if not self.files or self.kind == log.kind:  # else the log's is of another score
            self.target = log.target or self.target
        if not log.finished:
            return
        self.has_log = True
        self.staging, self.evaluation = log.staging_s, log.evaluation_s
        self.epoch_s = [seconds for seconds, _ in log.finished]
        self.training = sum(seconds - evaluation for seconds, evaluation in log.finished)
        self.solution = log.minutes * 60 if log.minutes is not None else None
        self.epochs = float(len(log.finished))
        if self.batch:
            self.steps = self.epochs * (self.training_samples // self.batch)
        self.evaluated = self.epochs * self.validation_samples

    def steps_per_epoch(self):
        if self.batch and self.training_samples >= self.batch:
            return float(self.training_samples // self.batch)
        return float(max(self.files.first_epoch_steps, 1)) if self.files else 1.0

    def total(self):
        """T_sol, or the sum of what is known."""
        return self.staging + self.training + self.evaluation if self.solution is None else self.solution

    def rest(self):
        """T_extra = T_sol - T_stg - T_tr - T_ev: opening files, checkpoints, start-up."""
        return self.total() - self.staging - self.training - self.evaluation

    def epoch_seconds(self):
        return ratio(self.training + self.evaluation, self.epochs)

    def later_epochs(self):
        """Seconds of the epochs but the first, which reads what later ones find in caches."""
        return self.epoch_s[1:] if len(self.epoch_s) > 1 else self.epoch_s

    def training_rate(self):
        """s_t in samples/s."""
        return ratio(self.steps * self.batch, self.training)

    def evaluation_rate(self):
        """s_v in samples/s."""
        return ratio(self.evaluated, self.evaluation)

    def combined_rate(self, epoch_seconds):
        return ratio(self.training_samples + self.validation_samples, epoch_seconds)

    def staging_epochs(self):
        """q = T_stg / T_epoch; then T_stg / T_sol = q / (q + E) where T_extra is negligible."""
        return ratio(self.staging, self.epoch_seconds())

    def alike(self):
        """What runs have in common that differ in their seeds alone."""
        record = self.record
        options = {name: value for name, value in (records.at(record, "options") or {}).items()
                   if name not in PLACES} if isinstance(records.at(record, "options"), dict) else None
        settings = self.log.settings if self.log and options is None else None
        return repr((options, settings, self.ranks, self.replicas, self.parts, self.threads, self.nodes, self.cpu,
                     self.batch, self.training_samples, self.validation_samples,
                     records.at(record, "network", "parameters")))


class Group:
    """Runs that differ in their seeds alone."""

    def __init__(self, runs):
        self.runs, self.first = runs, runs[0]
        self.label = self.first.name
        if len(runs) > 1:
            self.label = (f"{self.first.replicas} x {self.first.parts} parts, batch {self.first.batch} "
                          f"({len(runs)} runs)")

    def of(self, value):
        """Statistics of value(run) over the runs; a run without it is left out."""
        values = [value(run) for run in self.runs]
        return statistics_of([v for v in values if v is not None])

    def any_reached(self):
        return any(run.reached for run in self.runs)

    def epochs(self):
        """E of the runs that reached the target, or of all if none did."""
        return statistics_of([run.epochs for run in self.runs if run.reached or not self.any_reached()])


def group_runs(runs):
    """In the order of their first runs. Groups of one shape have the names of their first runs as well."""
    groups = {}
    for run in runs:
        groups.setdefault(run.alike(), []).append(run)
    groups = [Group(runs) for runs in groups.values()]
    labels = [group.label for group in groups]
    for group in groups:
        if labels.count(group.label) > 1:
            group.label = f"{group.first.name}: {group.label}" if len(group.runs) > 1 else group.label
    return groups


def scored(group):
    """The runs of a group as the MLPerf score sees them."""
    return [mlperf.Run(run.name, "unfinished" if run.solution is None else "reached" if run.reached else "missed",
                       minutes=run.total() / 60) for run in group.runs]
