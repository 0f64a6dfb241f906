#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated steps beside forecast ones: CosmoFlow, kernel 2, on the three kinds of network.

usage: steps.py [--limit PERCENT] [--network "OPTIONS"] [--bench "OPTIONS"] [PATTERN...]
Only rows whose "machine ranks parts" contains one of the patterns; without one, those of at most 512
ranks. OPTIONS go to the network (of bench and plan alike, e.g. "--cuts space") or to bench alone.
Writes one CSV line per row as it is done, and then the median and the largest difference. Fails where
a forecast is further from its simulated step than --limit (10 %). Environment: as scene.py says.
A forecast counts without its straggler and input terms, which simulated ranks do not have.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

import scene

MACHINES = ("fugaku", "cori-knl", "xeon-slurm")  # torus, dragonfly, fat tree
# ranks (one per node) and parts; every replica has one sample
MESHES = [(ranks, parts)
          for ranks, of_ranks in ((64, ("1x1x1", "2x1x1", "4x1x1", "2x2x1", "4x4x1")),
                                  (512, ("1x1x1", "4x1x1", "2x2x1", "4x4x1", "4x4x4")),
                                  (1024, ("1x1x1", "4x1x1", "4x4x1")),
                                  (2048, ("1x1x1", "4x1x1")),
                                  (4096, ("1x1x1", "4x4x1")),
                                  (8192, ("4x4x1",)))
          for parts in of_ranks]


def replicas_of(ranks, parts):
    for extent in parts.split("x"):
        ranks //= int(extent)
    return ranks


def forecast(directory, job, network, parts, batch):
    for mesh in scene.planned_meshes(directory, *network.split(), *job, "--batch", batch):
        if mesh["parts"] == parts:
            return scene.forecast_seconds(mesh)
    raise RuntimeError(f"{job}: plan has no mesh {parts}")


def compare(machine, ranks, parts, options):
    """One row: prints it and returns how far the forecast is from the simulated step."""
    batch = replicas_of(ranks, parts)
    job = ("--machine", machine, "--nodes", ranks, "--ranks-per-node", 1)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        platform = directory / "platform.xml"
        scene.plan(*options.network.split(), *job, "--platform", platform)
        expected = forecast(directory, job, options.network, parts, batch)
        result = scene.bench(platform, parts, batch, f"{options.network} {options.bench}",
                             launcher=f"-n {ranks}", machine=scene.MACHINES / f"{machine}.ini")
    if result.code != 0:
        raise RuntimeError(result.text)
    run = result.runs[0]
    step = run["step_seconds"]["median"]
    waits = [run["wait_fraction"][kind]["mean"] for kind in ("halo", "reduction")]
    print(f"{machine},{ranks},{parts},{batch},{step:.6g},{waits[0]:.4f},{waits[1]:.4f},"
          f"{expected:.6g},{expected / step:.3f},{result.seconds:.1f},{result.memory_bytes / 1e6:.0f}",
          flush=True)
    return abs(expected / step - 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--network", default="")
    parser.add_argument("--bench", default="")
    parser.add_argument("patterns", nargs="*")
    options = parser.parse_args()
    rows = [(machine, ranks, parts) for machine in MACHINES for ranks, parts in MESHES
            if any(p in f"{machine} {ranks} {parts}" for p in options.patterns)
            or (not options.patterns and ranks <= 512)]
    print("machine,ranks,parts,batch,simulated_s,halo_wait,reduction_wait,forecast_s,"
          "forecast_to_simulated,simulator_s,simulator_memory_mb")
    differences = [compare(*row, options) for row in rows]
    if not differences:
        print("no row has such a pattern", file=sys.stderr)
        return 2
    worst = max(differences)
    print(f"# {len(differences)} rows: median difference {100 * statistics.median(differences):.1f} %,"
          f" largest {100 * worst:.1f} %")
    return 1 if worst > options.limit / 100 else 0


sys.exit(main())
