# SPDX-License-Identifier: Apache-2.0
"""Runs a command of the package: `python3 DIRECTORY/halomesh watch run`."""
import os
import sys

if sys.version_info < (3, 9):
    sys.exit("halomesh: error: Python 3.9 is needed, and {} is {}.{}\n  hint: name a newer one: "
             "HALOMESH_PYTHON=/path/to/python3".format(sys.executable, *sys.version_info[:2]))
# Python puts the package itself first in its path when it is run as a directory.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from halomesh.commands import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
