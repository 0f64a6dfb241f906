#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of `halomesh report` in a real browser: test/system/report_browser.mjs says what is
asked of them. One page is of a small run trained here, the other the sample with every kind of figure.

Optional: counts its cases as skipped, and says why, where Node.js, Chromium or the packages that
BROWSER=1 installs are missing. Environment: HALOMESH (the program), HALOMESH_SOURCE (the source tree),
MPIRUN (launcher with its flags). Leaves pictures of the pages in build/browser.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("HALOMESH_SOURCE", pathlib.Path(__file__).parents[2]))
PROGRAM = pathlib.Path(os.environ.get("HALOMESH", "build/halomesh"))
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER_FILES = SOURCE / "build" / "browser"
MODULES = BROWSER_FILES / "node_modules"
CASES = 9  # of a page
TRAIN = "--input 16x16x16x4 --conv-layers 2 --filters 4 --fc 16,8 --batch 4 --epochs 3"


def missing():
    if not shutil.which("node"):
        return "no Node.js"
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium"
    absent = [name for name in ("playwright-core", "axe-core") if not (MODULES / name).is_dir()]
    return f"no {' and '.join(absent)} in {MODULES}" if absent else ""


def run(*command, launcher=(), **environment):
    command = [*launcher, *map(str, command)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")


def on_ranks(ranks):
    return [*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", str(ranks)]


def make_pages(directory):
    data, model = directory / "data", shlex.split(TRAIN)
    run(PROGRAM, "synth", "--out", data, "--train", 16, "--validation", 8, "--extent", 16,
        launcher=on_ranks(1))
    run(PROGRAM, "train", *model, "--data", data, "--out", directory / "one", launcher=on_ranks(1))
    run(PROGRAM, "train", *model, "--data", data, "--out", directory / "two", "--parts", "2x1x1",
        "--stage-dir", directory / "stage", launcher=on_ranks(2))
    run(PROGRAM, "report", directory / "one", directory / "two", "--out", directory / "report.html")
    pages = [directory / "report.html"]
    pages.append(directory / "sample.html")
    run(sys.executable, SOURCE / "test/system/report_test.py", "--sample", pages[-1])
    return pages


def main():
    why = missing()
    if why:
        print(f"skipped: {why}; make test BROWSER=1 installs it\n0 passed, 0 failed, {2 * CASES} skipped")
        return 0
    browser = next(path for path in map(shutil.which, BROWSERS) if path)
    with tempfile.TemporaryDirectory() as directory:
        pages = make_pages(pathlib.Path(directory))
        done = subprocess.run(["node", SOURCE / "test/system/report_browser.mjs", MODULES, browser,
                               BROWSER_FILES, *pages], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    print(done.stdout, end="")
    passed = len(re.findall("^ok ", done.stdout, re.M))
    failed = CASES * len(pages) - passed  # a case that did not run has failed
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
