# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a file or a directory, and what can happen to a job while it runs."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from scene import Patience, Skipped, expect


def resolve(scene, name):
    """A path below the scene: "last", "data/train/3" (the fourth file there), or a plain path."""
    if name in scene.names:
        return scene.names[name]
    path = scene / name
    if path.name.isdigit():
        return sorted(path.parent.iterdir())[int(path.name)]
    return path


def on(name, damage):
    """A fault: `damage` done to what resolve() finds."""
    return lambda scene: damage(resolve(scene, name))


def both(*faults):
    def fault(scene):
        for one in faults:
            one(scene)
    return fault


# Contents.

def emptied(path):
    path.write_bytes(b"")


def truncated(path):
    os.truncate(path, path.stat().st_size // 2)


def shorter(path):
    """By its last byte."""
    os.truncate(path, path.stat().st_size - 1)


def garbage(path):
    path.write_bytes(bytes(range(256)) * (path.stat().st_size // 256 + 1))


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path):
    """One bit in each sixteenth, so that some hit what is read."""
    data = bytearray(path.read_bytes())
    for part in range(16):
        data[(2 * part + 1) * len(data) // 32] ^= 0x10
    path.write_bytes(data)


def nans(path):
    """Ten NaN of single precision in the middle of each eighth."""
    data = bytearray(path.read_bytes())
    for part in range(8):
        at = (2 * part + 1) * len(data) // 16 // 4 * 4
        data[at:at + 40] = b"\0\0\xc0\x7f" * 10
    path.write_bytes(data)


def contents(data):
    return lambda path: path.write_bytes(data)


def deleted(path):
    path.unlink()


# Kinds.

def fifo(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def directory(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def unix_socket(path):
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:  # the address of a socket has room for 107 bytes only
        server.bind(os.path.relpath(path, here) if len(str(path)) > 100 else str(path))
    finally:
        server.close()


def link_to(target):
    def fault(path):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    return fault


def loop(path):
    link_to(path.name)(path)


KINDS = {
    "a FIFO": fifo, "a directory": directory, "a socket": unix_socket,
    "/dev/zero": link_to("/dev/zero"), "/dev/full": link_to("/dev/full"),
    "a dangling link": link_to("nowhere"), "a loop of links": loop,
}
DAMAGES = {"empty": emptied, "truncated": truncated, "garbage": garbage, "zeros": zeros}


# Disks.

def full_disk(name, kilobytes):
    """A disk with so much room on a directory, which is made."""
    def fault(scene):
        at = scene.mount(name, f"size={kilobytes + 4}k")
        (at / "full").write_bytes(bytes(4096))
    return fault


def read_only(name):
    return lambda scene: scene.mount(name, "ro", ("-r",))


def memory_group(limit_bytes):
    """A control group (version 1) with this limit, which the command joins: see in_group()."""
    def fault(scene):
        own = re.search(r"^\d+:memory:(.*)$", Path("/proc/self/cgroup").read_text(), re.M)
        group = Path("/sys/fs/cgroup/memory") / (own.group(1).lstrip("/") if own else "") / scene.root.name
        try:
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
        except OSError:
            raise Skipped("making a control group is not permitted here") from None
        scene.group = group
        scene.names["group"] = group
    return fault


def in_group(command):
    """The same command, which first joins scene.group."""
    return f"plain sh -c 'echo $$ >{{group}}/cgroup.procs && exec {command}'"


def mounts(scene):
    """Skips where file systems cannot be mounted."""
    scene.mount("probe", "size=4k")


# Jobs that run.

def steps_done(out):
    """The loss by step, as metrics.jsonl has them."""
    path = Path(out) / "metrics.jsonl"
    losses = {}
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the last one may be half written
            if record.get("event") == "step":
                losses[record["step"]] = record["loss"]
    return losses


def wait_for(job, condition, limit_s=300):
    """Until the condition holds or the job has ended."""
    patience = Patience(limit_s)
    while not condition() and not job.ended():
        expect(not patience.over(), "the moment to interfere never came")
        time.sleep(0.002)


def send(number, to, when):
    """Sends a signal to a rank, or to the launcher ("launcher"), as soon as `when(scene, job)`.

    The ranks are paused meanwhile, so that scene.steps_when_sent is exact to the step being logged.
    """
    def signal_to(pid, what):
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass

    def during(scene, job):
        wait_for(job, lambda: when(scene, job))
        ranks = job.ranks()
        for pid in ranks.values():
            signal_to(pid, signal.SIGSTOP)
        scene.steps_when_sent = len(steps_done(scene / "out"))
        target = job.process.pid if to == "launcher" else ranks.get(to)
        if target is not None and not job.ended():
            signal_to(target, number)
        # A launcher passes a signal on up to a second later, and continues its ranks before: a fast
        # run would be over by then, so that it is slowed down.
        end = time.monotonic() + (2.5 if to == "launcher" else 0)
        while time.monotonic() < end and not job.ended():
            for what, seconds in ((signal.SIGCONT, 0.001), (signal.SIGSTOP, 0.04)):
                for pid in ranks.values():
                    signal_to(pid, what)
                time.sleep(seconds)
        for pid in ranks.values():
            signal_to(pid, signal.SIGCONT)
    return during


def at_step(most, out="out"):
    """A random step."""
    chosen = {}

    def when(scene, job):
        step = chosen.setdefault(scene, scene.random.randint(1, most))
        return len(steps_done(scene / out)) >= step
    return when


@contextlib.contextmanager
def busy_host(load):
    """So many processes that compute without end."""
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def after_delay(most_s, begun="data", ranks=2):
    """A random time after all ranks run and what `begun` names is there."""
    began = {}

    def when(scene, job):
        if scene not in began:
            if len(job.ranks()) < ranks or not any(scene.root.glob(begun)):
                return False
            began[scene] = time.monotonic() + scene.random.uniform(0, most_s)
        return time.monotonic() >= began[scene]
    return when


SIGNALS = {name: getattr(signal, f"SIG{name}") for name in ("TERM", "INT", "USR2", "HUP", "KILL")}
