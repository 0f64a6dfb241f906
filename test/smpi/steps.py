#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated steps beside forecast ones: CosmoFlow with kernel 2, and the 3-D U-Net of MLPerf, on the
three kinds of network.

usage: steps.py [--limit PERCENT] [--network "OPTIONS"] [--bench "OPTIONS"] [PATTERN...]
Only rows whose "network machine NODESxRANKS parts" contains one of the patterns, e.g. "cosmoflow
fugaku 64x1 4x4x1"; without one, those that are simulated within seconds. OPTIONS go to the network (of bench and plan alike, e.g. "--cuts space") or to bench alone.
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

NETWORKS = {"cosmoflow": scene.COSMOFLOW, "unet3d": scene.UNET}
MACHINES = ("fugaku", "cori-knl", "xeon-slurm")  # torus, dragonfly, fat tree
# Nodes, ranks per node and parts; every replica has one sample.
COSMOFLOW = [(nodes, 1, parts)
             for nodes, of_nodes in ((64, ("1x1x1", "2x1x1", "4x1x1", "2x2x1", "4x4x1")),
                                     (512, ("1x1x1", "4x1x1", "2x2x1", "4x4x1", "4x4x4")),
                                     (1024, ("1x1x1", "4x1x1", "4x4x1")),
                                     (2048, ("1x1x1", "4x1x1", "4x4x1")),
                                     (4096, ("1x1x1", "4x4x1")),
                                     (8192, ("4x4x1",)))
             for parts in of_nodes]
FULL_NODES = {"fugaku": (4, (16, 64)), "cori-knl": (4, (64,)), "xeon-slurm": (8, (8, 64, 1024))}


def all_rows():
    for machine in MACHINES:
        nodes_of_machine = 1024 if machine == "xeon-slurm" else 8192
        for nodes, per_node, parts in COSMOFLOW:
            if nodes <= nodes_of_machine:
                yield "cosmoflow", machine, nodes, per_node, parts
        per_node, counts = FULL_NODES[machine]
        for nodes in counts:
            for parts in ("1x1x1", "4x1x1", "4x4x1", "4x4x4"):
                yield "cosmoflow", machine, nodes, per_node, parts
    for machine in MACHINES:
        for nodes, parts in ((16, "4x1x1"), (16, "4x4x1"), (64, "2x2x2"), (64, "4x4x4")):
            yield "unet3d", machine, nodes, 1, parts


def is_short(network, nodes, per_node, parts):
    ranks = nodes * per_node
    return ranks <= (16 if network == "unet3d" else 64 if parts == "1x1x1" else 256)


def replicas_of(ranks, parts):
    for extent in parts.split("x"):
        ranks //= int(extent)
    return ranks


def compare(row, options):
    """One row: prints it and returns how far the forecast is from the simulated step."""
    name, machine, nodes, per_node, parts = row
    ranks = nodes * per_node
    batch = replicas_of(ranks, parts)
    network = f"{NETWORKS[name]} {options.network}"
    job = ("--machine", machine, "--nodes", nodes, "--ranks-per-node", per_node)
    with tempfile.TemporaryDirectory() as directory:
        platform = pathlib.Path(directory) / "platform.xml"
        scene.plan(*job, "--platform", platform, network=network)
        meshes = scene.planned_meshes(pathlib.Path(directory), *job, "--batch", batch,
                                      network=network)
        expected = next(scene.forecast_seconds(mesh) for mesh in meshes if mesh["parts"] == parts)
        result = scene.bench(platform, parts, batch, options.bench, network=network,
                             launcher=f"-n {ranks} --per-node {per_node}",
                             machine=scene.MACHINES / f"{machine}.ini")
    if result.code != 0:
        raise RuntimeError(result.text)
    run = result.runs[0]
    step = run["step_seconds"]["median"]
    waits = [run["wait_fraction"][kind]["mean"] for kind in ("halo", "reduction")]
    print(f"{name},{machine},{nodes},{per_node},{parts},{batch},{step:.6g},"
          f"{waits[0]:.4f},{waits[1]:.4f},{expected:.6g},{expected / step:.3f},{result.seconds:.1f},{result.memory_bytes / 1e6:.0f}",
          flush=True)
    return abs(expected / step - 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--network", default="")
    parser.add_argument("--bench", default="")
    parser.add_argument("patterns", nargs="*")
    options = parser.parse_args()
    rows = [row for row in all_rows()
            if any(p in "{} {} {}x{} {}".format(*row) for p in options.patterns)
            or (not options.patterns and is_short(row[0], *row[2:]))]
    print("network,machine,nodes,ranks_per_node,parts,batch,simulated_s,halo_wait,reduction_wait,"
          "forecast_s,forecast_to_simulated,simulator_s,simulator_memory_mb")
    differences = [compare(row, options) for row in rows]
    if not differences:
        print("no row has such a pattern", file=sys.stderr)
        return 2
    worst = max(differences)
    print(f"# {len(differences)} rows: median difference {100 * statistics.median(differences):.1f} %,"
          f" largest {100 * worst:.1f} %")
    return 1 if worst > options.limit / 100 else 0


sys.exit(main())
