# SPDX-License-Identifier: Apache-2.0
"""Reads run.json and metrics.jsonl of a run line by line, also while the run still writes them.

No more than a line is held: what of it is kept is the affair of who reads.
"""
import calendar
import json
import math
import os
import pathlib
import stat
import time

from halomesh.errors import Error, reason_of

GIVE_RUN = "give the directory that train wrote with --out"
RUN_BYTES = 1 << 28  # run.json has a line of binding per rank
LINE_BYTES = 1 << 22  # a longer line is damaged
SCORES = {"mae": "MAE", "dice": "Dice", "iou": "IoU", "accuracy": "accuracy"}  # names in files, and those for people


def higher_is_better(kind):
    return kind != "mae"


def is_better(kind, a, b):
    """Whether score `a` is better than `b`, or `b` is not a number."""
    if math.isnan(b):
        return not math.isnan(a)
    return a > b if higher_is_better(kind) else a < b


def reaches(kind, score, target):
    """Whether the score is as good as the target; a target of 0 is none."""
    return target > 0 and (score >= target if higher_is_better(kind) else score <= target)


def at(record, *keys):
    """The value at a path of keys; None where there is none."""
    for key in keys:
        if not isinstance(record, dict) or key not in record:
            return None
        record = record[key]
    return record


def number(record, *keys):
    """The number at a path of keys; NaN where there is none."""
    value = at(record, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def finite(record, *keys):
    """The same, 0 where there is no finite number."""
    value = number(record, *keys)
    return value if math.isfinite(value) else 0.0


def count(record, *keys):
    """A whole number that can be computed with, whatever the file says."""
    return round(min(max(finite(record, *keys), -1.0), 1e15))


def text(record, *keys):
    """The text at a path of keys; "" where there is none."""
    value = at(record, *keys)
    return value if isinstance(value, str) else ""


def items(record, key):
    """The objects of the list at `key`."""
    value = at(record, key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def option(record, name):
    """The value of an option in run.json as text; "" when it is not recorded."""
    value = at(record, "options", name)
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def option_number(record, name):
    """The value of an option as a number; 0 when it is none."""
    try:
        value = float(option(record, name))
    except ValueError:
        return 0.0
    return min(max(value, -1e15), 1e15) if math.isfinite(value) else 0.0


def target_of(record):
    """The validation score that a run is to reach; 0: none."""
    return option_number(record, "target-score") or max(option_number(record, "target-mae"), 0.0)


def utc_seconds(written):
    """Unix seconds of "2026-11-22T10:20:30Z"; 0 for another text."""
    try:
        return float(calendar.timegm(time.strptime(written, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return 0.0


def duration_of(record):
    """Seconds from the start of a run to its end, None unless it has ended.

    The monotonic clock's, where it is on record. The clock of the day may have been set meanwhile: a
    difference of its times that is negative says nothing.
    """
    if not isinstance(at(record, "end"), dict):
        return None
    measured, ended = number(record, "end", "seconds"), number(record, "end", "time")
    if measured >= 0:
        return measured
    started = utc_seconds(text(record, "started"))
    return ended - started if started > 0 and ended >= started else math.nan


def evaluation_of(line):
    """The kind of score in a line of the event "eval", and the score: ("mae", 0.2)."""
    for kind in SCORES:
        if math.isfinite(number(line, kind)):
            return kind, number(line, kind)
    return next((kind for kind in SCORES if kind in line), "mae"), math.nan


def open_regular(path):
    """Opens a file for reading bytes. A device or a pipe may never end: it is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Error(f"cannot read {path}: {reason_of(error)}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Error(f"{path} is not a regular file", "give the path of a file")
    return os.fdopen(handle, "rb")


def read_text(path, most=1 << 28):
    """The text of a file of at most `most` bytes, which need not be UTF-8."""
    with open_regular(path) as file:
        try:
            # read() makes room for as many bytes as it is asked for.
            data = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
        except OSError as error:
            raise Error(f"cannot read {path}: {reason_of(error)}") from None
    if len(data) > most:
        raise Error(f"{path} is larger than {most >> 20} MiB", "give a file that halomesh wrote")
    return data.decode("utf-8", "replace")


def lines_of(file):
    """Each line of a file of bytes, and how many bytes it has; one at a time. A line longer than
    LINE_BYTES is not held: its end of line stands for it, or nothing where it has none yet."""
    while line := file.readline(LINE_BYTES):
        length = len(line)
        if length == LINE_BYTES and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(1 << 20)
                length += len(line)
            line = line[-1:]
        yield line, length


def parsed(line):
    """A text as JSON; None for what is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class RunFiles:
    """The files of one run, as far as they have been read. Hands each line of metrics.jsonl to
    take(line), which a derived class defines; forget() is called before they are read anew.

    directory     pathlib.Path of the --out directory
    name          the directory's name without its parents
    record        run.json: a dictionary, empty when it is absent or damaged
    last_written  the time of the last line, or of the file where lines have no time; Unix seconds
    """

    def __init__(self, directory):
        """Reads what is there. Raises Error when `directory` is none or holds neither file."""
        self.directory = pathlib.Path(directory)
        self.name = self.directory.name or self.directory.resolve().name
        if self.name == "..":
            self.name = self.directory.resolve().name
        self.record, self._record_stamp, self._inode = {}, None, None
        self._run_state = self._metrics_missing = self._cut = False
        self._reset()
        if not self.directory.is_dir():
            raise Error(f"{directory} is not a directory of a run", GIVE_RUN)
        self.update()
        if self._run_state == "missing" and self._metrics_missing:
            raise Error(f"{directory} holds neither run.json nor metrics.jsonl", GIVE_RUN)

    def take(self, line):
        """Called with each line as a dictionary that has an "event"."""

    def forget(self):
        """Called when all lines will be read again."""

    def _reset(self):
        self._position = self._lines = self._damaged = self._first_damaged = 0
        self._last_line = b""
        self.last_written = 0.0

    def update(self):
        """Reads what was added since, or all again when a resumed run has replaced a file. True when
        there was something new."""
        changed = self._update_record()
        try:
            status = os.stat(self.directory / "metrics.jsonl")
        except OSError:
            self._metrics_missing = True
            return changed
        self._metrics_missing = False
        if self._inode is not None and (status.st_ino != self._inode or status.st_size < self._position):
            self._reset()
            self.forget()
        self._inode = status.st_ino
        if status.st_size > self._position:
            changed = self._read_lines() or changed
        if self.last_written == 0:
            self.last_written = status.st_mtime
        return changed

    def _update_record(self):
        path = self.directory / "run.json"
        try:
            status = os.stat(path)
        except OSError:
            self._run_state = "missing"
            return False
        stamp = (status.st_ino, status.st_mtime_ns)
        if stamp == self._record_stamp:
            return False
        self._record_stamp = stamp
        record = parsed(read_text(path, RUN_BYTES))
        self._run_state = "" if isinstance(record, dict) else "damaged"
        self.record = record if isinstance(record, dict) else {}
        return True

    def _read_lines(self):
        before, was_cut = self._lines, False
        with open_regular(self.directory / "metrics.jsonl") as file:
            file.seek(self._position - len(self._last_line))
            was_cut = file.read(len(self._last_line)) != self._last_line
            if was_cut:  # by a resumed run, which has written again since
                self._reset()
                self.forget()
                file.seek(0)
            for line, length in lines_of(file):
                self._cut = not line.endswith(b"\n")  # a run that is writing may have a partial line
                if self._cut:
                    break
                self._position += length
                self._last_line = line
                self._lines += 1
                entry = parsed(line)
                if isinstance(entry, dict) and isinstance(entry.get("event"), str):
                    self.last_written = max(self.last_written, finite(entry, "time"))
                    self.take(entry)
                    continue
                self._damaged += 1
                self._first_damaged = self._first_damaged or self._lines
        return was_cut or self._lines != before

    @property
    def damaged(self):
        """How many lines of metrics.jsonl could not be read."""
        return self._damaged

    def problems(self):
        """What is wrong with the files, for the user."""
        record, metrics = self.directory / "run.json", self.directory / "metrics.jsonl"
        found = []
        if self._run_state:
            found.append(f"{record}: {'missing' if self._run_state == 'missing' else 'not a JSON object'}")
        if self._metrics_missing:
            found.append(f"{metrics}: missing")
        if self._damaged:
            found.append(f"{metrics}: damaged lines: {self._damaged} (the first is line {self._first_damaged})")
        if self._cut:
            found.append(f"{metrics}: line {self._lines + 1} is incomplete")
        return found
