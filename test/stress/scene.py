# SPDX-License-Identifier: Apache-2.0
"""Runs the program as a user would, in a directory made for one case, and checks what it leaves.

A Case is a row of a table: a command, a fault, and what must follow. A case passes if the command
ends in time with the expected exit code; if a failure prints exactly one error and one hint, and
the error names all of `says`; if no process survives; and if no file appears or changes except
those that match `writes`.
"""
import fnmatch
import hashlib
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = os.environ.get("HALOMESH", "build/halomesh")
LAUNCHER = shlex.split(os.environ.get("MPIRUN", "mpirun --oversubscribe --bind-to none"))
SOURCE = os.environ.get("HALOMESH_SOURCE", Path(__file__).parents[2])
MARK = "HALOMESH_STRESS"  # in the environment of every process of a case

# A network and a run of 24 steps that take a second. {data}, {run} and {out} are filled in below.
SMALL = "--input 16x16x16x4 --conv-layers 2 --filters 4 --fc 8 --batch 2"
TRAIN = f"train --data {{data}} {SMALL} --parts 2x1x1 --epochs 0 --steps 24 --checkpoint-every 8 --keep 9"
ALONE = TRAIN.replace("--parts 2x1x1", "--parts 1x1x1")  # without a launcher
UNET = ("train --model unet3d --data {root}/volumes --input 16x16x16x1 --filters 4 --levels 2 --classes 2 --batch 2 "
        "--epochs 1")
EVAL = "eval --data {data} --parts 1x2x1 --checkpoint"


@dataclass
class Case:
    name: str
    command: str
    code: object = 0  # an exit code, or a tuple of possible ones
    says: tuple = ()  # words of the error; of a successful command, of its output; "a|b": either
    fault: object = None  # called with the scene before the command
    during: object = None  # called with the scene and the job while it runs
    after: object = None  # called with the scene and the output when it has ended
    ranks: int = 0  # 0: without a launcher
    writes: tuple = ()  # patterns of files below the scene that may appear or change
    limit_s: float = 60
    one_error: bool = True  # False: ranks that are killed say what they can


class Patience:
    """Counts the time of a machine that is not busy: limits of time find what hangs, not what is slow."""

    def __init__(self, seconds):
        self.left, self.before = seconds, time.monotonic()

    def over(self):
        now = time.monotonic()
        minute, _, _, running, _ = Path("/proc/loadavg").read_text().split()
        crowding = max(float(minute), int(running.split("/")[0])) / os.cpu_count()
        self.left -= (now - self.before) / max(1, crowding)
        self.before = now
        return self.left < 0


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class LauncherHung(Failed):
    """Open MPI 4.1.4 may never end the other ranks where one dies while they connect."""


def expect(condition, what):
    if not condition:
        raise Failed(what)


@dataclass
class Job:
    """A running command and all that it has printed so far."""

    process: subprocess.Popen
    log: Path
    mark: str
    since: float = field(default_factory=time.monotonic)

    def pids(self):
        """The processes of the job, launcher included, that still run."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    if state != "Z" and needle in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except (OSError, IndexError):
                    pass
        return found

    def ranks(self):
        """Process ids by rank."""
        found = {}
        for pid in self.pids():
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "halomesh\n":
                    text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                    rank = re.search(r"(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)", text)
                    found[int(rank.group(1)) if rank else 0] = pid
            except OSError:
                pass
        return found

    def output(self):
        return self.log.read_text(errors="replace")

    def ended(self):
        return self.process.poll() is not None

    def wait(self, limit_s):
        """The exit code; 128 + the signal where one ended the launcher."""
        patience = Patience(limit_s)
        while (code := self.process.poll()) is None:
            if patience.over():
                self.kill()
                hung = "PMIX ERROR: UNREACHABLE" in self.output()
                raise (LauncherHung if hung else Failed)(f"still runs after {limit_s} s")
            time.sleep(0.005)
        return code if code >= 0 else 128 - code

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


class Scene:
    """A directory with a copy of the data sets and of a finished run, for one case."""

    def __init__(self, templates, name, seed):
        self.root = Path(tempfile.mkdtemp(prefix="halomesh-stress-")).resolve()
        for template in templates.iterdir():
            shutil.copytree(template, self.root / template.name, symlinks=True)
        self.logs = Path(tempfile.mkdtemp(prefix="halomesh-stress-log-"))  # not among its files
        self.random = random.Random(f"{seed}:{name}")
        self.mounts = []
        self.names = {
            "root": self.root, "data": self.root / "data", "run": self.root / "run",
            "out": self.root / "out", "stage": self.root / "stage",
        }
        self.names["last"] = self.root / "run/checkpoints/step-000000024.h5"
        self.names["stage"].mkdir()
        self.names["halomesh"], self.names["mpirun"] = PROGRAM, shlex.join(LAUNCHER)
        self.group = None  # a control group that the command joins

    def __truediv__(self, name):
        return self.root / name

    def close(self):
        for mount in reversed(self.mounts):
            subprocess.run(["umount", "-l", mount], check=False)
        if self.group:
            self.group.rmdir()
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(self.logs, ignore_errors=True)

    def start(self, command, ranks=0):
        words = [word.format(**self.names) for word in shlex.split(command)]
        if words[0] == "plain":  # a command without the program's name in front, e.g. ulimit
            words = words[1:]
        else:
            words = [PROGRAM, *words]
        if ranks:
            words = [*LAUNCHER, "-n", str(ranks), *words]
        mark = uuid.uuid4().hex
        log = self.logs / mark
        with open(log, "w") as out:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.root, env={**os.environ, MARK: mark}, start_new_session=True)
        return Job(process, log, mark)

    def run(self, command, ranks=0, limit_s=300):
        """Runs to the end; exit code and output."""
        job = self.start(command, ranks)
        code = job.wait(limit_s)
        return code, job.output()

    def mount(self, name, options, flags=()):
        """A tmpfs on a directory below the scene."""
        at = self.root / name
        at.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", *flags, "-o", options, "tmpfs", at],
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Skipped("mounting a file system is not permitted here")
        self.mounts.append(at)
        return at

    def files(self):
        """What lies below the scene: kind and contents by path."""
        found = {}
        for directory, names, files in os.walk(self.root):
            for name in names + files:
                path = Path(directory) / name
                try:
                    mode = path.lstat().st_mode
                    if stat.S_ISREG(mode):
                        what = hashlib.sha1(path.read_bytes()).hexdigest()
                    elif stat.S_ISLNK(mode):
                        what = f"link to {os.readlink(path)}"
                    else:
                        what = stat.filemode(mode)[0]
                except FileNotFoundError:
                    continue  # another job of the case works here, too
                found[str(path.relative_to(self.root))] = what
        return found


def check_output(case, code, text):
    codes = case.code if isinstance(case.code, tuple) else (case.code,)
    expect(code in codes, f"exit code {code}, expected {case.code}")
    errors = re.findall(r"^halomesh: error.*(?:\n(?!  hint: |halomesh: ).*)*", text, re.M)
    hints = re.findall(r"^  hint: .*", text, re.M)
    if code != 0 and case.one_error:
        expect(len(errors) == 1, f"{len(errors)} errors instead of 1")
        expect(len(hints) == 1, f"{len(hints)} hints instead of 1")
    if code == 0:
        expect(not errors, "an error, but exit code 0")
        expect("nan" not in re.findall(r"[a-z]+", text), "a result of nan with exit code 0")
    said = "\n".join(errors + hints) if errors else text
    expect(not re.search("(remove|delete) (the|that) (file|link|one)", said), "a hint removes what may be the user's")
    for words in case.says:
        expect(any(word in said for word in words.split("|")), f'does not say "{words}"')


def check_files(case, before, after):
    for path in sorted(before.keys() | after.keys()):
        allowed = any(fnmatch.fnmatchcase(path, pattern) for pattern in case.writes)
        if before.get(path) != after.get(path) and not allowed:
            what = "lost" if path not in after else "left behind" if path not in before else "changed"
            raise Failed(f"{what}: {path}")


def run_case(case, templates, seed):
    """Raises Failed or Skipped; the output of the command is in the exception's `text`."""
    scene = Scene(templates, case.name, seed)
    job, text = None, ""
    try:
        if case.fault:
            case.fault(scene)
        before = scene.files()
        job = scene.start(case.command, case.ranks)
        if case.during:
            case.during(scene, job)
        code = job.wait(case.limit_s)
        text = job.output()
        left = wait_until_gone(job)
        check_output(case, code, text)
        expect(not left, f"{len(left)} processes are left")
        check_files(case, before, scene.files())
        if case.after:
            case.after(scene, text)
    except (Failed, Skipped) as problem:
        problem.text = job.output() if job else text
        raise
    finally:
        if job:
            job.kill()
        scene.close()


def wait_until_gone(job, limit_s=5):
    """A launcher may end a moment before its ranks do."""
    patience = Patience(limit_s)
    while (left := job.pids()) and not patience.over():
        time.sleep(0.02)
    return left
