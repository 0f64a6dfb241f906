# SPDX-License-Identifier: Apache-2.0
"""The command `watch`: how far a run is, how fast, and whether it is still going, from its files alone.

Needs the standard library alone, and as much memory for a long run as for a short one.
"""
import collections
import dataclasses
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

from halomesh import records
from halomesh.errors import UsageError, plain
from halomesh.options import Options, real
from halomesh.texts import clock, plural

EXIT_DONE, EXIT_FAILED, EXIT_RUNNING, EXIT_SILENT, EXIT_STOPPED = 0, 1, 3, 4, 75
SILENT_SECONDS, SILENT_INTERVALS = 600, 10
RECENT_STEPS, USUAL_STEPS = 20, 200
LINE_SECONDS, JOB_SECONDS, ANSWER_SECONDS, ANSWER_BYTES = 60, 30, 5, 1 << 20
MOST_MEANS = 4096
MINOR_SHARE = 0.005
BLOCKS = {True: "▁▂▃▄▅▆▇█", False: "_.-~=+*#"}


class Means:
    """The means of equal shares of a sequence that grows, of which at most MOST_MEANS are kept."""

    def __init__(self):
        self._sums, self._counts, self._share, self._taken = [], [], 1, 0
        self.least, self.most, self.last = math.inf, -math.inf, math.nan

    def add(self, value):
        if self._taken % self._share == 0:
            if len(self._sums) == MOST_MEANS:
                for values in (self._sums, self._counts):
                    values[:] = [a + b for a, b in zip(values[::2], values[1::2])]
                self._share *= 2
            self._sums.append(0.0)
            self._counts.append(0)
        self._taken += 1
        self.last = value
        if math.isfinite(value):
            self._sums[-1] += value
            self._counts[-1] += 1
            self.least, self.most = min(self.least, value), max(self.most, value)

    def __len__(self):
        return self._taken

    def of(self, columns):
        """The means of at most `columns` shares; NaN for one without a finite value."""
        have = len(self._sums)
        columns, means = min(columns, have), []
        for c in range(columns):
            share = slice(c * have // columns, (c + 1) * have // columns)
            values = sum(self._counts[share])
            means.append(sum(self._sums[share]) / values if values else math.nan)
        return means


class WatchedRun(records.RunFiles):
    """What of a run's lines its status needs."""

    def __init__(self, directory):
        self.forget()
        super().__init__(directory)

    def forget(self):
        self.losses, self.recent = Means(), collections.deque(maxlen=USUAL_STEPS + 1)
        self.step = self.epoch = self.epoch_steps = self.steps_on_record = 0
        self.seconds = 0.0
        self.evaluation = self.phases = None
        self.kind, self.best = "mae", math.nan
        self.evaluations = self.evaluation_seconds = 0

    def take(self, line):
        if line["event"] == "step":
            step, epoch = records.count(line, "step"), records.count(line, "epoch")
            # The first step of a later epoch shows how many an epoch has.
            if not self.epoch_steps and epoch > 0 and (epoch, step) == (self.epoch + 1, self.step + 1):
                self.epoch_steps = self.step // epoch
            self.step, self.epoch = step, epoch
            seconds = records.finite(line, "seconds")
            self.seconds += seconds
            self.steps_on_record += 1
            self.losses.add(records.number(line, "loss"))
            self.recent.append((seconds, records.finite(line, "time")))
        elif line["event"] == "eval":
            self.kind, score = records.evaluation_of(line)
            self.evaluation = (score, records.count(line, "epoch"))
            if records.is_better(self.kind, score, self.best):
                self.best = score
            if math.isfinite(records.number(line, "seconds")):
                self.evaluations += 1
                self.evaluation_seconds += records.number(line, "seconds")
        elif line["event"] == "phases":
            line.pop("rows", None)
            self.phases = line


@dataclasses.dataclass
class Status:
    """What stands out of a run's files at one time. Times are in seconds; what is not known is None."""

    run: WatchedRun
    state: str = "running"  # done, running or silent
    result: str = ""  # how it ended: done, target, stopped or diverged
    steps: int = None
    epochs: int = None
    ranks: int = None
    target: float = 0.0
    rate: float = 0.0
    mean_rate: float = 0.0
    shares: dict = dataclasses.field(default_factory=dict)  # kinds of time of a step, in [0, 1]
    limit: str = ""
    silent: float = 0.0
    silent_limit: float = 0.0
    left: float = None  # to the last step, with the evaluations
    wall: float = None  # to the run's wall limit
    scheduler: str = ""
    job: str = ""


def steps_per_epoch(run):
    """Steps of an epoch; 0 while that is not known."""
    samples, batch = records.count(run.record, "samples", "training"), records.option_number(run.record, "batch")
    return int(samples // batch) if samples > 0 and batch > 0 else run.epoch_steps


def usual_interval(run):
    """Between lines: by their times, or, without any, by how long steps take."""
    recent = list(run.recent)
    gaps = [b[1] - a[1] for a, b in zip(recent, recent[1:]) if 0 < a[1] < b[1]]
    gaps = gaps or [seconds for seconds, _ in recent[-USUAL_STEPS:]]
    return statistics.median_high(gaps) if gaps else 0.0


def mean_seconds(run, most):
    recent = [seconds for seconds, _ in run.recent][-most:]
    return sum(recent) / len(recent) if recent else 0.0


def all_done(run, status):
    """Whether every step and the last evaluation are on record, for runs that do not write their end."""
    if run.evaluation and records.reaches(run.kind, run.evaluation[0], status.target):
        return True
    if status.steps is None or run.step < status.steps:
        return False
    return not records.option_number(run.record, "evaluate-every") or bool(
        run.evaluation and run.evaluation[1] >= run.epoch)


def find_time_left(run, status, now):
    limit = records.option_number(run.record, "wall-limit")
    started = records.utc_seconds(records.text(run.record, "started"))
    if limit > 0 and started > 0:
        status.wall = max(started + limit - now, 0.0)
    step_seconds = mean_seconds(run, USUAL_STEPS)
    if status.steps is None or step_seconds <= 0:
        return
    steps, per_epoch = status.steps - run.step, steps_per_epoch(run)
    left = steps * step_seconds
    every = records.option_number(run.record, "evaluate-every")
    if every > 0 and per_epoch > 0 and run.evaluations:
        left += math.ceil(steps / per_epoch / every) * run.evaluation_seconds / run.evaluations
    status.left = max(left, 0.0)


def status_of(run, now, last_sign, silent_limit):
    """The status at `now` (Unix seconds) of a run whose last sign of life was at `last_sign`.
    `silent_limit` 0: 10 minutes, or ten times the usual interval between lines if that is longer."""
    status = Status(run, target=records.target_of(run.record))
    status.ranks = records.count(run.record, "mesh", "ranks") or None
    status.scheduler, status.job = (records.text(run.record, "job", key) for key in ("scheduler", "id"))
    steps, epochs = (int(records.option_number(run.record, name)) for name in ("steps", "epochs"))
    status.steps, status.epochs = steps if steps > 0 else None, epochs if epochs > 0 else None
    if epochs > 0 and steps_per_epoch(run) > 0:
        of_epochs = epochs * steps_per_epoch(run)
        status.steps = min(status.steps or of_epochs, of_epochs)
    batch, step_seconds = records.option_number(run.record, "batch"), mean_seconds(run, RECENT_STEPS)
    status.rate = batch / step_seconds if step_seconds > 0 else 0.0
    status.mean_rate = batch * run.steps_on_record / run.seconds if run.seconds > 0 else 0.0
    whole = records.number(run.phases, "step_seconds", "mean")
    if whole > 0:
        status.limit = records.text(run.phases, "limit")
        status.shares = {records.text(row, "kind"): records.finite(row, "mean") / whole
                         for row in records.items(run.phases, "kinds")}
    status.result = records.text(run.record, "end", "result")
    status.silent = max(now - last_sign, 0.0)
    status.silent_limit = silent_limit or max(SILENT_SECONDS, SILENT_INTERVALS * usual_interval(run))
    if isinstance(records.at(run.record, "end"), dict) or all_done(run, status):
        status.state = "done"
    elif status.silent > status.silent_limit:
        status.state = "silent"
    if status.state != "done":
        find_time_left(run, status, now)
    return status


def exit_code(status):
    """That of the run, once it has ended."""
    if status.state != "done":
        return EXIT_RUNNING if status.state == "running" else EXIT_SILENT
    return {"diverged": EXIT_FAILED, "stopped": EXIT_STOPPED}.get(status.result, EXIT_DONE)


def as_json(status):
    run, kind = status.run, status.run.kind

    def known(value):
        return value if value and math.isfinite(value) else None
    score = run.evaluation[0] if run.evaluation else None
    record = {"run": run.name, "state": status.state, "result": status.result or None, "step": run.step,
              "steps": status.steps, "epoch": run.epoch, "epochs": status.epochs,
              "loss": run.losses.last if math.isfinite(run.losses.last) else None,
              kind: score if score is not None and math.isfinite(score) else None,
              ("best_" if records.higher_is_better(kind) else "least_") + kind:
                  run.best if math.isfinite(run.best) else None,
              "target_" + kind: known(status.target), "samples_per_second": known(status.rate),
              "mean_samples_per_second": known(status.mean_rate), "time_shares": status.shares,
              "limit": status.limit or None, "silent_seconds": status.silent,
              "silent_limit_seconds": status.silent_limit, "seconds_left": status.left,
              "wall_seconds_left": status.wall}
    if status.job:
        record["job"] = {"scheduler": status.scheduler, "id": status.job}
    return record


def output_of(command, seconds):
    """The standard output of a command, started without a shell; None when it cannot be started, fails,
    prints very much, or takes longer: it is then killed."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL)
    except OSError:
        return None
    found = []
    reader = threading.Thread(target=lambda: found.append(child.stdout.read(ANSWER_BYTES)), daemon=True)
    end = time.monotonic() + seconds
    reader.start()
    reader.join(seconds)
    try:
        is_whole = bool(found) and len(found[0]) < ANSWER_BYTES
        code = child.wait(max(end - time.monotonic(), 0.001) if is_whole else 0.001)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return None
    return found[0].decode("utf-8", "replace") if code == 0 and is_whole else None


def job_state(scheduler, job):
    """"RUNNING 1:02:03 2:57:57 node[1-4]" (state, elapsed, left, nodes or reason) of `squeue`, or what
    `pjstat` says; "" where the scheduler cannot be asked."""
    if not (job.isascii() and job.isdigit() and len(job) <= 18) or scheduler not in ("slurm", "pjm"):
        return ""
    # Of a job that has ended, squeue prints nothing for some minutes and then fails.
    command = ["squeue", "-h", "-j", job, "-o", "%T %M %L %R"] if scheduler == "slurm" else ["pjstat", job]
    answer = output_of(command, ANSWER_SECONDS)
    if answer is None:
        return ""
    if scheduler == "slurm":
        state = " ".join(answer.split())
    else:  # number, name, mode, state, user, start, elapsed limit, nodes
        rows = (line.split() for line in answer.splitlines())
        state = next((row[3] for row in rows if len(row) > 3 and row[0] == job), "")
    return state or "not in the queue"


def sparkline(values, utf8):
    """A character per value on a linear scale from the least to the largest; "?" where it is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    least, most = (min(finite), max(finite)) if finite else (0, 0)

    def character(value):
        if not math.isfinite(value):
            return "?"
        level = (value - least) / (most - least) if most > least else 0
        return BLOCKS[utf8][math.floor(level * 7 + 0.5)]
    return "".join(map(character, values))


def general(value, digits):
    return f"{value:.{digits}g}"


def state_text(status):
    if status.state == "silent":
        return "silent for " + clock(status.silent)
    if status.state == "running":
        return "running"
    return {"diverged": "diverged: the loss was no longer finite",
            "target": f"done: reached the target {records.SCORES[status.run.kind]}",
            "stopped": "stopped before the end: start it again to resume"}.get(status.result, "done")


def progress_text(status):
    text = f"step {status.run.step}"
    if status.steps:
        text += f" of {status.steps} ({100 * status.run.step / status.steps:.1f} %)"
    return f"{text}, epoch {status.run.epoch + 1}" + (f" of {status.epochs}" if status.epochs else "")


def score_text(status):
    run = status.run
    text = f"{general(run.evaluation[0], 5)} after epoch {run.evaluation[1] + 1}"
    if run.best != run.evaluation[0]:
        text += f", {'best' if records.higher_is_better(run.kind) else 'least'} {general(run.best, 5)}"
    return text + (f", target {general(status.target, 5)}" if status.target > 0 else "")


def left_text(status):
    return ", ".join(clock(seconds) + where for seconds, where in
                     ((status.left, " to the last step"), (status.wall, " to the wall limit"))
                     if seconds is not None)


def loss_text(status, columns, utf8):
    losses = status.run.losses
    last = general(losses.last, 5)
    if losses.least > losses.most:
        return last
    range_text = f"{last} ({general(losses.least, 4)} .. {general(losses.most, 4)})"
    free = columns - len(range_text) - 1
    return f"{sparkline(losses.of(min(free, 60)), utf8)} {range_text}" if free >= 8 else range_text


def screen_of(status, state_of_job, columns, utf8):
    """Lines of at most `columns` characters."""
    run, lines = status.run, []

    def add(label, text):
        if text:
            # A line wider than the terminal would wrap and could not be redrawn.
            lines.append(plain(f"{label:7} {text}".replace("\n", "?"))[:columns])
    add("run", run.name + (f" on {plural(status.ranks, 'rank')}" if status.ranks else "") + ": " + state_text(status))
    if status.job:
        add("job", f"{status.scheduler} {status.job}" + (f": {state_of_job}" if state_of_job else ""))
    add("done", progress_text(status))
    add("left", left_text(status))
    if len(run.losses):
        add("loss", loss_text(status, columns - 8, utf8))
    if run.evaluation:
        add(records.SCORES[run.kind], score_text(status))
    if status.mean_rate > 0:
        add("speed", f"{general(status.rate, 4)} samples/s now, {general(status.mean_rate, 4)} mean")
    add("time", ", ".join(f"{kind} {100 * share:.1f} %" for kind, share in status.shares.items()
                          if share >= MINOR_SHARE or kind == "input wait"))
    add("limit", status.limit)
    if status.state == "running":
        add("last", f"line {clock(status.silent)} ago")
    return lines


def line_of(status, state_of_job):
    """Everything that changes, in one line."""
    run = status.run
    parts = [f"{run.name}: {state_text(status)}", progress_text(status)]
    if len(run.losses):
        parts.append(f"loss {general(run.losses.last, 5)}")
    if run.evaluation:
        parts.append(f"{records.SCORES[run.kind]} {score_text(status)}")
    if status.rate > 0:
        parts.append(f"{general(status.rate, 4)} samples/s")
    if "input wait" in status.shares:
        parts.append(f"input wait {100 * status.shares['input wait']:.1f} %")
    parts += filter(None, (left_text(status), state_of_job and f"job {state_of_job}"))
    return plain(", ".join(parts).replace("\n", "?"))


def locale_is_utf8():
    name = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "").lower()
    return "utf-8" in name or "utf8" in name


class Watch:
    """Follows one run: reads what is new, and shows it."""

    def __init__(self, directory, silent_limit, wants_json):
        self.run, self._silent_limit, self._wants_json = WatchedRun(directory), silent_limit, wants_json
        self._job_state, self._job_asked = "", 0.0
        self._shown = (None, None, 0.0)  # state, last sign, when
        self.note_change()

    def note_change(self):
        """The last sign of life is the last line's time, or, where lines or times are missing, the
        files'. Times of a node whose clock is behind ours do not make a run that has just written silent."""
        times = [self.run.last_written]
        for file in ("run.json", "metrics.jsonl"):
            try:
                times.append(os.stat(self.run.directory / file).st_mtime)
            except OSError:
                pass
        self._last_sign = max(times)

    def refresh(self):
        if self.run.update():
            self.note_change()
        now = time.time()
        self.status = status_of(self.run, now, self._last_sign, self._silent_limit)
        if self.status.job and self.status.state != "done" and now - self._job_asked >= JOB_SECONDS:
            self._job_state, self._job_asked = job_state(self.status.scheduler, self.status.job), now
        return self.status

    def print_screen(self):
        columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
        print("\n".join(screen_of(self.status, self._job_state, columns, locale_is_utf8())))

    def print_json(self, indent=None):
        record = as_json(self.status)
        if self._job_state:
            record["job"]["state"] = self._job_state
        print(json.dumps(record, indent=indent), flush=True)

    def redraw(self):
        print("\033[H\033[J", end="")
        self.print_screen()
        sys.stdout.flush()

    def report(self):
        """A line, if something has changed and the last line is a minute old, or the state is another."""
        state, sign, when = self._shown
        now = time.time()
        if state == self.status.state and (sign == self._last_sign or now - when < LINE_SECONDS):
            return
        if self._wants_json:
            self.print_json()
        else:
            print(line_of(self.status, self._job_state), flush=True)
        self._shown = (self.status.state, self._last_sign, now)


def follow(watch, interval, wants_json):
    """Until the run is done or silent, or a signal asks to stop."""
    asked = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: asked.set())
    is_screen = not wants_json and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    while True:
        status = watch.refresh()
        if is_screen:
            watch.redraw()
        else:
            watch.report()
        if status.state != "running":
            return exit_code(status)
        if asked.wait(interval):
            return EXIT_RUNNING


def options():
    return Options(
        "watch [options] RUN",
        "Shows how far a run (its --out directory) is: step, loss, MAE, speed, where the time goes, the\n"
        "time left and what the scheduler says. Reads only its files, from any node that sees them.",
        "halomesh watch run",
        "On a terminal the screen is redrawn; elsewhere there is one line per change, at most one a minute.\n"
        "Exit code: that of the run once it has ended, 0 done, 1 diverged, 75 stopped before its end; 3 it is\n"
        "running (with --once, or watch was interrupted), 4 it is silent; also 1 it cannot be read, 2 usage."
    ).group("Watching").add_switch(
        "once", "show the run as it is now, and end").add_switch(
        "json", "print JSON: with --once one object, else one per line").add(
        "interval", "S", 2.0, "seconds between two looks at the files", real(0.1, 86400)).add(
        "silent-limit", "S", 0.0, "a run without a new line for S seconds is silent; 0: 600, or ten times "
        "the usual interval between lines if that is longer", real(0))


def main(words):
    values = options().parse(words)
    if values is None:
        return EXIT_DONE
    if len(values["arguments"]) != 1:
        raise UsageError(f"watch got {len(values['arguments'])} runs instead of 1",
                         "give the --out directory of one run: halomesh watch run")
    watch = Watch(values["arguments"][0], values["silent-limit"], values["json"])
    for problem in watch.run.problems():
        print("WARNING: " + plain(problem), file=sys.stderr)
    if not values["once"]:
        return follow(watch, values["interval"], values["json"])
    status = watch.refresh()
    if values["json"]:
        watch.print_json(2)
    else:
        watch.print_screen()
    return exit_code(status)
