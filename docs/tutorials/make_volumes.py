#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes volumes of three kinds of bodies under noise, in one HDF5 file, with a class for each.

    make_volumes.py DIR [VOLUMES] [EXTENT]

DIR gets volumes.h5 with x, float32 of VOLUMES x EXTENT^3, and y, the class of each: 0 ball, 1 shell, 2 rod; and dataset.json
with the names of the classes. Needs NumPy and h5py.
"""
import json
import pathlib
import sys

import h5py
import numpy

CLASSES = "ball", "shell", "rod"


def volume(extent, kind, random):
    """A body of random size and place, a half to one bright, under noise."""
    places = numpy.indices((extent,) * 3) - random.uniform(0.4, 0.6, 3)[:, None, None, None] * extent
    radius = random.uniform(0.18, 0.3) * extent
    far = numpy.sqrt((places**2).sum(0))
    if CLASSES[kind] == "ball":
        body = far < radius
    elif CLASSES[kind] == "shell":
        body = (far < radius) & (far > 0.7 * radius)
    else:
        body = numpy.sqrt((numpy.delete(places, random.integers(3), 0)**2).sum(0)) < 0.35 * radius
    return (body * random.uniform(0.5, 1) + random.normal(0, 0.2, body.shape)).astype("f4")


def main(directory, volumes=100, extent=32):
    random = numpy.random.default_rng(1)
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    kinds = random.integers(len(CLASSES), size=volumes)
    with h5py.File(directory / "volumes.h5", "w") as file:
        file["x"] = numpy.stack([volume(extent, kind, random) for kind in kinds])
        file["y"] = kinds
    (directory / "dataset.json").write_text(json.dumps({"classes": CLASSES}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
