#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the program from outside in every wrong way that the tables of cases.py list.

Two cases run at a time. The last line is "N passed, M failed, K skipped".
usage: stress_test.py [PATTERN...]    only cases whose names contain one of the patterns
Environment: HALOMESH (program), MPIRUN (launcher), SHORT (1: one random moment of each kind),
STRESS_SEED (of the random moments; printed, so that a run can be repeated).
"""
import concurrent.futures
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import cases
import scene


def make_templates(directory):
    """Data sets of every format and a finished run, which each case gets a copy of."""
    made = scene.Scene(Path(directory), "templates", 0)
    shutil.rmtree(made / "stage")
    for command in cases.TEMPLATES:
        ranks = 2 if command.startswith("train") else 0
        code, text = made.run(command, ranks)
        if code != 0:
            sys.exit(f"cannot prepare: {command}\n{text}")
    for entry in made.root.iterdir():
        shutil.move(entry, directory)
    made.close()


def run(case, templates, seed):
    """"ok", "skip" or "not ok", and what there is to say."""
    start = time.monotonic()
    try:
        for attempt in range(3):
            try:
                scene.run_case(case, templates, f"{seed}.{attempt}" if attempt else seed)
                break
            except scene.LauncherHung:  # at another moment it does not
                if attempt == 2:
                    raise
        word, why = "ok", ""
    except scene.Skipped as skip:
        word, why = "skip", f"skipped: {skip}"
    except scene.Failed as failure:
        said = "\n".join("    " + line for line in failure.text.splitlines()[-12:])
        word, why = "not ok", f"{failure}\n    {case.command}\n{said}"
    except Exception as error:  # a mistake in a row fails that row only
        word, why = "not ok", f"{type(error).__name__}: {error}"
    return word, f"{word}: {case.name} ({time.monotonic() - start:.1f} s) {why}"


def main():
    sys.stdout.reconfigure(errors="backslashreplace")  # paths of cases may hold any bytes
    os.environ.pop("OMPI_MCA_ess_singleton_isolated", None)  # users do not set it
    patterns = sys.argv[1:]
    seed = os.environ.get("STRESS_SEED") or str(random.randrange(10**6))
    short = os.environ.get("SHORT") == "1"
    chosen = [c for c in cases.all_cases(short)
              if not patterns or any(p in c.name for p in patterns)]
    names = [c.name for c in chosen]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        sys.exit(f"cases of the same name: {sorted(repeated)}")
    print(f"{len(chosen)} cases; STRESS_SEED={seed} repeats the random moments", flush=True)
    tally = {"ok": 0, "not ok": 0, "skip": 0}
    with tempfile.TemporaryDirectory(prefix="halomesh-stress-") as templates:
        make_templates(templates)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(run, c, Path(templates), seed) for c in chosen]
            for future in concurrent.futures.as_completed(futures):
                word, line = future.result()
                tally[word] += 1
                print(line, flush=True)
    print(f"{tally['ok']} passed, {tally['not ok']} failed, {tally['skip']} skipped")
    return 1 if tally["not ok"] or not tally["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
