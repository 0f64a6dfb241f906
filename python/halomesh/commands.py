# SPDX-License-Identifier: Apache-2.0
"""Finds the command and says what goes wrong as the rest of the program does."""
import importlib
import os
import signal
import sys

from halomesh.errors import Error, plain

COMMANDS = {"report": "halomesh.report.command", "watch": "halomesh.watch", "export": "halomesh.tensorboard",
            "mlperf-summary": "halomesh.mlperf", "figures": "halomesh.report.scaling_figures"}


def fail(what, hint="", code=1):
    lines = f"halomesh: error: {what}\n" + (f"  hint: {hint}\n" if hint else "")
    sys.stdout.flush()
    sys.stderr.write(plain(lines))
    return code


def missing_package(command, error):
    package = (error.name or str(error)).split(".")[0]
    return fail(f"{command} needs the Python package {package}, which {sys.executable} does not have",
                f"install it there (Debian: python3-{package}; elsewhere: {sys.executable} -m pip install "
                f"{package}), or name an interpreter that has it: HALOMESH_PYTHON=/path/to/python3")


def run(command, words):
    try:
        code = importlib.import_module(COMMANDS[command]).main(words)
        sys.stdout.flush()
        return code
    except Error as error:
        return fail(str(error), error.hint, error.exit_code)
    except ImportError as error:
        if (error.name or "").startswith("halomesh"):
            raise
        return missing_package(command, error)
    except MemoryError:
        return fail("not enough memory", "give fewer runs, or run it on a node with more")


def main(words):
    """The exit code of a command: words[0] is its name."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")
    if not words or words[0] not in COMMANDS:
        return fail(f"the package has the commands {', '.join(list(COMMANDS)[:-1])}", "", 2)
    try:
        return run(words[0], words[1:])
    except BrokenPipeError:
        # A pipe closed by its reader, such as head, is not a failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return fail(f"standard output cannot be written: {error.strerror}", "check the file or disk it goes to")
        return fail(f"{error.filename}: {error.strerror}")
