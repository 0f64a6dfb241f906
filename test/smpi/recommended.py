#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is the mesh that `plan` recommends the fastest that can be simulated? CosmoFlow, kernel 2.

usage: recommended.py [--limit PERCENT] [--best COUNT] [MACHINE,NODES,BATCH...]
Simulates one step of every mesh of each job (or of the COUNT that are forecast fastest), one rank
per node, and prints one CSV line per job as it is done. Fails where the recommended mesh takes more
than --limit (5 %) longer than the fastest. Environment: as scene.py says.
"""
import argparse
import pathlib
import sys
import tempfile

import scene

JOBS = ("fugaku,64,16", "fugaku,64,64", "fugaku,64,4", "cori-knl,64,16", "cori-knl,64,4",
        "xeon-slurm,64,16", "xeon-slurm,64,4")


def compare(job, count):
    """One job: prints its line and returns how much longer the recommended mesh takes."""
    machine, nodes, batch = job.split(",")
    options = ("--machine", machine, "--nodes", nodes, "--ranks-per-node", 1, "--batch", batch)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        platform = directory / "platform.xml"
        scene.plan(*options, "--platform", platform)
        meshes = [mesh for mesh in scene.planned_meshes(directory, *options) if mesh["fits_memory"]]
        steps = {}
        for mesh in meshes[:count]:
            result = scene.bench(platform, mesh["parts"], batch, launcher=f"-n {nodes}",
                                 machine=scene.MACHINES / f"{machine}.ini")
            if result.code != 0:
                raise RuntimeError(result.text)
            steps[mesh["parts"]] = result.runs[0]["step_seconds"]["median"]
    recommended = meshes[0]["parts"]
    fastest = min(steps, key=steps.get)
    slowest = max(steps, key=steps.get)
    longer = steps[recommended] / steps[fastest] - 1
    print(f"{machine},{nodes},{batch},{len(steps)},{recommended},{1e3 * steps[recommended]:.4g},"
          f"{fastest},{1e3 * steps[fastest]:.4g},{100 * longer:.2f},"
          f"{slowest},{1e3 * steps[slowest]:.4g}", flush=True)
    return longer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=5)
    parser.add_argument("--best", type=int, default=None)
    parser.add_argument("jobs", nargs="*", default=JOBS)
    options = parser.parse_args()
    print("machine,nodes,batch,meshes,recommended,step_ms,fastest,step_ms,longer_percent,"
          "slowest,step_ms")
    worst = max(compare(job, options.best) for job in options.jobs)
    return 1 if worst > options.limit / 100 else 0


sys.exit(main())
