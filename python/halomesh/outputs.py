# SPDX-License-Identifier: Apache-2.0
"""Writes files whole or not at all, and never over what a command reads."""
import contextlib
import errno
import os
import pathlib
import stat
import tempfile
import time

from halomesh.errors import Error, UsageError, reason_of

RUN_FILES = ("run.json", "metrics.jsonl", "mllog.txt", "result.json", "output.txt", "checkpoints")
DATA_FILES = ("*.tfrecord", "*.tfrecord.gz", "train-[0-9]*.h5", "validation-[0-9]*.h5")


PARTS = {"checkpoints": ("run.json", "the run"), "train": ("dataset.json", "the data set"),
         "validation": ("dataset.json", "the data set")}


def refuse_to_replace(out, inputs, option):
    """Raises UsageError when writing `out`, which `option` names, would replace one of the files that are
    read or a file of a run, or land among the checkpoints of a run or the samples of a data set."""
    out, hint = pathlib.Path(out), f"give another {option}"
    place = pathlib.Path(os.path.realpath(out))
    for path in inputs:
        if out.exists() and os.path.exists(path) and not os.path.isdir(path) and os.path.samefile(out, path):
            raise UsageError(f"{option} {out} is one of the files to read", hint)
    # A device has no place among files; its directory says nothing of it.
    if place.exists() and not place.is_file():
        return
    holder = place.parent
    is_of_run = place.name in RUN_FILES and any((holder / file).exists() for file in RUN_FILES[:3])
    if is_of_run and place.exists():
        raise UsageError(f"{option} {out} is a file of a run", hint)
    for part in place.parents:
        mark, owner = PARTS.get(part.name, (None, None))
        if mark and (part.parent / mark).exists():
            raise UsageError(f"{option} {out} lies in {part.name}/ of {owner} {part.parent}", hint)
    if any(next(holder.glob(pattern), None) for pattern in DATA_FILES):
        raise UsageError(f"{option} {out} lies among the files of a data set", hint)


def own_descriptor(path):
    """The descriptor of this process that a path such as /dev/stdout or /dev/fd/63 names; none for others."""
    for _ in range(40):
        head, name = os.path.split(path)
        if name.isdigit() and os.path.realpath(head) == f"/proc/{os.getpid()}/fd":
            return int(name)
        if not os.path.islink(path):
            break
        path = os.path.join(head, os.readlink(path))
    return None


def is_stream(path):
    """True for a device, a FIFO, or a descriptor of this process, which has no path of its own."""
    try:
        return own_descriptor(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def open_stream(path):
    """Opens what is no regular file. A FIFO without a reader would block for ever, so it gets ten seconds."""
    own = own_descriptor(path)
    if own is not None:
        return os.fdopen(os.dup(own), "wb")
    end = time.monotonic() + 10
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            os.set_blocking(handle, True)
            return os.fdopen(handle, "wb")
        except OSError as error:
            if error.errno != errno.ENXIO or not pathlib.Path(path).is_fifo():
                raise
            if time.monotonic() > end:
                raise Error(f"cannot write {path}: no process reads this FIFO", "start its reader first, or name a file") from None
        time.sleep(0.01)


def require_writable(out):
    """Raises Error where no file could be written: better before the work than after it."""
    place = pathlib.Path(os.path.realpath(out))
    if place.is_dir():
        raise Error(f"{out} is a directory", "give the path of a file")
    if is_stream(out):
        return
    if not os.access(place.parent, os.W_OK | os.X_OK) or not place.parent.is_dir():
        raise Error(f"cannot write {out}: its directory does not exist or is read-only",
                    "give a path in a directory that can be written")


def make_directory(path, option):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise Error(f"cannot create directory {path}: {reason_of(error)}",
                    f"give another {option} that can be written") from None


class WholeFile:
    """A file to write bytes to, which takes its name when the block ends without an error. Links are
    followed; a device or a pipe is written through."""

    def __init__(self, path):
        self._path, self._place = path, os.path.realpath(path)

    def __enter__(self):
        try:
            self._is_regular = not is_stream(self._path)
            if not self._is_regular:
                self._file = open_stream(self._path)
                return self._file
            status = os.stat(self._place) if os.path.exists(self._place) else None
            handle, self._partial = tempfile.mkstemp(
                prefix=os.path.basename(self._place) + ".", suffix=".partial", dir=os.path.dirname(self._place))
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(handle, stat.S_IMODE(status.st_mode) if status else 0o666 & ~mask)
            self._file = os.fdopen(handle, "wb")
            return self._file
        except OSError as error:
            raise self._failure(error) from None

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self._file.flush()
                if self._is_regular:
                    os.fsync(self._file.fileno())
            self._file.close()
            if kind is None and self._is_regular:
                os.replace(self._partial, self._place)
        except OSError as failure:
            kind, error = type(failure), failure
        if kind is None:
            return False
        with contextlib.suppress(OSError):
            self._file.close()
        if self._is_regular:
            pathlib.Path(self._partial).unlink(missing_ok=True)
        elif isinstance(error, BrokenPipeError):
            return True  # the reader has left, as head does: it needs no more
        if isinstance(error, OSError):
            raise self._failure(error) from None
        return False

    def _failure(self, error):
        return Error(f"cannot write {self._path}: {reason_of(error)}",
                     "check the path, its permissions and the space on its disk")


def write_text(path, text):
    with WholeFile(path) as file:
        file.write(text.encode("utf-8", "replace"))
