#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on simulated ranks: the same step twice, steps against bounds computed by hand, sums of
gradients against a binomial tree, and commands that must be refused.

The last line is "N passed, M failed, K skipped". Environment: SHORT (1: at most 64 ranks),
HALOMESH_SMPI (the launcher; build/smpi/halomesh-smpi).
"""
import math
import os
import pathlib
import subprocess
import sys
import traceback

import scene

SHORT = os.environ.get("SHORT") == "1"
MESSAGE_S = 2 * 1.3e-6 + 1e-7  # on fugaku:...: both ends and one link
LINK_BYTES_PER_S = 6.35e9
PARAMETERS = 5_597_604  # of CosmoFlow with kernel 2


def step_of(result):
    assert result.code == 0, result.text
    assert len(result.runs) == 1, result.text
    return result.runs[0]["step_seconds"]["median"]


def same_step_twice():
    first = scene.bench("fugaku:4x4x4", "2x1x1", 32)
    second = scene.bench("fugaku:4x4x4", "2x1x1", 32)
    assert step_of(first) > 0
    assert step_of(first) == step_of(second), (step_of(first), step_of(second))
    assert first.runs[0]["phases"] == second.runs[0]["phases"]
    assert first.runs[0]["phases"]


def step_of_64_ranks():
    """At least the kernels and a message per doubling after them; at most the kernels and a sum of
    all gradients by a binomial tree that nothing hides, with updates and packing (5 %)."""
    result = scene.bench("fugaku:4x4x4", "1x1x1", 64)
    run = result.runs[0]
    assert run["parameters"] == PARAMETERS
    compute = scene.compute_seconds(run)
    assert compute > 0
    least = compute + math.log2(64) * MESSAGE_S
    tree = 2 * math.log2(64) * (MESSAGE_S + 4 * PARAMETERS / LINK_BYTES_PER_S)
    step = step_of(result)
    assert least <= step <= 1.05 * (compute + tree), (least, step, compute, tree)


def binomial_tree_is_slower():
    """Of one sample on 16 ranks the step by itself is short: its sums decide."""
    steps = {way: step_of(scene.bench("fugaku:4x4x4", "1x1x1", 64, f"--reduction {way}"))
             for way in ("auto", "binomial")}
    assert steps["auto"] < steps["binomial"], steps


def sums_of_64_ranks():
    """Against a binomial tree, and against MPI_Allreduce of Fujitsu's library on 4x4x4 nodes, in ms
    (github.com/HLC-Lab/pico, linearly interpolated between sizes)."""
    published_ms = {2_700_000: 0.62, 22_390_416: 3.40}
    sizes = ",".join(map(str, published_ms))
    result = scene.simulate("fugaku:4x4x4", f"bench --sums --sum-bytes {sizes} --simulate-compute"
                            f" {scene.MACHINES}/fugaku.ini")
    assert result.code == 0, result.text
    rows = [line.split() for line in result.text.splitlines()]
    ms = {(row[0], row[1]): float(row[2]) for row in rows if row[1:2] in (["auto"], ["binomial"])}
    for size, published in published_ms.items():
        auto, tree = ms[str(size), "auto"], ms[str(size), "binomial"]
        assert auto <= 0.2 * tree, (size, auto, tree)
        assert auto <= 1.5 * published, (size, auto, published)


def forecasts():
    """Steps are what `plan` forecasts, to 10 %: full nodes on three kinds of network, and a U-Net."""
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("steps.py"),
                           "fugaku 16x4 4x4x4", "cori-knl 64x1 4x4x1", "xeon-slurm 8x8 4x4x4",
                           "unet3d fugaku 16x1 4x4x1"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("# 4 rows"), done.stdout


def batch_normalization():
    """Sums over the replicas for each normalization: more time, as none of it is hidden."""
    network = "--model unet3d --input 32x32x32x1 --filters 16 --levels 3"
    steps = [step_of(scene.bench("fugaku:2x2x2", "2x1x1", 4, network=f"{network} {of_norm}"))
             for of_norm in ("", "--batch-norm 4")]
    assert steps[1] > steps[0] + 2 * 10 * 2 * 2 * MESSAGE_S, steps


def blocks_of_a_torus():
    """One block that is the whole torus changes nothing; others place groups elsewhere."""
    rows = step_of(scene.bench("fugaku:8x2x2", "4x1x1", 8))
    same = step_of(scene.bench("fugaku:8x2x2", "4x1x1", 8, launcher="--blocks 8x2x2"))
    assert rows == same, (rows, same)
    across = step_of(scene.bench("fugaku:8x2x2", "4x1x1", 8, launcher="--blocks 1x2x2"))
    assert across != rows, (rows, across)


def thousand_ranks():
    result = scene.bench("fugaku:16x8x8", "4x1x1", 256)
    step = step_of(result)
    assert step >= scene.compute_seconds(result.runs[0])
    assert result.memory_bytes < 4e9, result.memory_bytes
    print(f"  1024 ranks: {result.seconds:.0f} s, {result.memory_bytes / 1e6:.0f} MB")


def recommended_mesh():
    """Of 64 meshes of 64 nodes the one that `plan` recommends is the fastest, to 5 %."""
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("recommended.py"),
                           "fugaku,64,4"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("fugaku,64,4,64,"), done.stdout


def refused():
    machine = f"--simulate-compute {scene.MACHINES}/fugaku.ini"
    for platform, launcher, command, code, said in (
            ("fugaku:4x4", "", "bench " + machine, 2, "no shape of a torus"),
            ("fugaku:4x4x1", "", "bench " + machine, 2, "extent below 2"),
            ("fugaku:2x2x2", "-n 9", "bench " + machine, 2, "9 ranks need 9 nodes"),
            ("fugaku:2x2x2", "--blocks 2x2", "bench " + machine, 2, "no shape of blocks"),
            ("fugaku:2x2x2", "--blocks 1x3x2", "bench " + machine, 2, "do not fill the torus 2x2x2"),
            ("fat-tree:32", "--blocks 1x1x1", "bench " + machine, 2, "has no blocks"),
            ("fugaku:2x2x2", "-n 0", "bench " + machine, 2, "no number of ranks"),
            ("nowhere.xml", "", "bench " + machine, 2, "cannot be read"),
            ("fugaku:2x2x2", "-n 1", "bench", 2, "do not compute"),
            ("fugaku:2x2x2", "-n 1", "bench --simulate-compute missing.ini", 2, "missing.ini"),
            ("fugaku:2x2x2", "-n 1", "train --data x", 2, "unknown command 'train'")):
        result = scene.simulate(platform, command, launcher, timeout=600)
        assert result.code == code and said in result.text, (command, result.code, result.text)


CASES = [same_step_twice, step_of_64_ranks, binomial_tree_is_slower, sums_of_64_ranks,
         forecasts, batch_normalization, blocks_of_a_torus, refused]
LONG = [thousand_ranks, recommended_mesh]


def main():
    failed = 0
    cases = CASES + ([] if SHORT else LONG)
    for case in cases:
        try:
            case()
            print(f"ok      {case.__name__}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok  {case.__name__}\n{traceback.format_exc()}", flush=True)
    skipped = len(LONG) if SHORT else 0
    print(f"{len(cases) - failed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
