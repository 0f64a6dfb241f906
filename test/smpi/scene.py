# SPDX-License-Identifier: Apache-2.0
"""Runs the program on simulated ranks, plans such runs, and reads what both say.

Environment: HALOMESH_SMPI (the launcher; build/smpi/halomesh-smpi) and HALOMESH (the program, for
`plan`; build/halomesh).
"""
import json
import os
import pathlib
import resource
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).parents[2]
LAUNCHER = os.environ.get("HALOMESH_SMPI", str(SOURCE / "build/smpi/halomesh-smpi"))
PROGRAM = os.environ.get("HALOMESH", str(SOURCE / "build/halomesh"))
MACHINES = SOURCE / "jobscripts/machines"
COSMOFLOW = "--input 128x128x128x4 --kernel 2 --fc 128,64 --targets 4"
UNET = f"--config {SOURCE}/models/unet3d-kits19.cfg"


class Result:
    """What a simulation has printed and taken; `seconds` are of CPU time."""

    def __init__(self, code, text, runs, seconds, memory_bytes):
        self.code, self.text, self.runs = code, text, runs
        self.seconds, self.memory_bytes = seconds, memory_bytes


def simulate(platform, command, launcher="", timeout=3600):
    """Runs `command` of halomesh, with --json, on a platform; `launcher` are options of it."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "bench.json"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [LAUNCHER, "--platform", str(platform), *launcher.split(), *command.split(),
             "--json", str(file)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        runs = json.loads(file.read_text())["runs"] if file.exists() else []
    # The largest of all so far: exact for the first and for any that grows.
    memory = after.ru_maxrss * 1024
    return Result(done.returncode, done.stdout, runs, seconds, memory)


def bench(platform, parts, batch, options="", launcher="", machine=MACHINES / "fugaku.ini",
          network=COSMOFLOW):
    """One simulated training run of one step: all steps take the same time."""
    return simulate(platform,
                    f"bench {network} --simulate-compute {machine} --parts {parts} --batch {batch}"
                    f" --steps 1 --warm-up 0 {options}", launcher)


def compute_seconds(run):
    """The kernels' times of a step on rank 0, as the run lists them: "conv1: forward 1.2 ms ..."."""
    return sum(float(line.split(" ms ")[0].split()[-1]) for line in run["kernels"]) * 1e-3


def plan(*options, network=COSMOFLOW):
    done = subprocess.run([PROGRAM, "plan", *network.split(), *map(str, options)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)


def planned_meshes(directory, *options, network=COSMOFLOW):
    """The meshes of a plan, best first."""
    file = directory / "plan.json"
    plan(*options, "--json", file, network=network)
    return json.loads(file.read_text())["meshes"]


def forecast_seconds(mesh):
    """The step without its straggler and input terms, which simulated ranks do not have."""
    return sum(mesh["step"][term] for term in ("compute_s", "halo_s", "gather_s", "reduction_s"))
