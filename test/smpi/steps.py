#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated steps beside forecast ones: CosmoFlow, kernel 2, on the three kinds of network.

usage: steps.py [PATTERN...]    only rows whose "machine ranks parts" contains one of the patterns
Writes one CSV line per row as it is done. Environment: HALOMESH (the program, for `plan`;
build/halomesh), HALOMESH_SMPI (the launcher; build/smpi/halomesh-smpi).
A forecast counts without its straggler and input terms, which simulated ranks do not have.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import scene

PLAN = os.environ.get("HALOMESH", str(scene.SOURCE / "build/halomesh"))
# machine, ranks (one per node), parts, global batch
ROWS = [(machine, ranks, parts, batch)
        for machine in ("fugaku", "cori-knl", "xeon-slurm")
        for ranks, parts, batch in ((64, "1x1x1", 64), (64, "4x1x1", 16), (64, "4x4x1", 4),
                                    (512, "1x1x1", 512), (512, "4x4x1", 32), (2048, "4x1x1", 512),
                                    (8192, "4x4x1", 512))]
TERMS = ("compute_s", "halo_s", "gather_s", "reduction_s")


def plan(*options):
    done = subprocess.run([PLAN, "plan", *scene.NETWORK.split(), *map(str, options)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)


def forecast(directory, machine, ranks, parts, batch):
    file = directory / "plan.json"
    plan("--machine", machine, "--nodes", ranks, "--ranks-per-node", 1, "--batch", batch, "--json", file)
    for mesh in json.loads(file.read_text())["meshes"]:
        if mesh["parts"] == parts:
            return sum(mesh["step"][term] for term in TERMS)
    return float("nan")


def main():
    print("machine,ranks,parts,batch,simulated_s,halo_wait,reduction_wait,forecast_s,"
          "forecast_to_simulated,simulator_s,simulator_memory_mb")
    for machine, ranks, parts, batch in ROWS:
        if len(sys.argv) > 1 and not any(p in f"{machine} {ranks} {parts}" for p in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            platform = directory / "platform.xml"
            plan("--machine", machine, "--nodes", ranks, "--ranks-per-node", 1, "--platform", platform)
            result = scene.bench(platform, parts, batch, launcher=f"-n {ranks}",
                                 machine=scene.MACHINES / f"{machine}.ini")
            if result.code != 0:
                raise RuntimeError(result.text)
            run = result.runs[0]
            step = run["step_seconds"]["median"]
            waits = [run["wait_fraction"][kind]["mean"] for kind in ("halo", "reduction")]
            expected = forecast(directory, machine, ranks, parts, batch)
        print(f"{machine},{ranks},{parts},{batch},{step:.6g},{waits[0]:.4f},{waits[1]:.4f},"
              f"{expected:.6g},{expected / step:.3f},{result.seconds:.1f},{result.memory_bytes / 1e6:.0f}",
              flush=True)


main()
