#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes boxes of a random field whose power falls with the wave number, and a table of what made each.

    make_boxes.py DIR [BOXES] [EXTENT]

DIR gets train/ and validation/ with box_NNN.npy, float32 of EXTENT^3, and parameters.txt with the amplitude (0.5 to 1.5) and
the slope (-2.5 to -0.5) of each; a fifth of the boxes are for validation. Needs NumPy.
"""
import pathlib
import sys

import numpy


def box(extent, amplitude, slope, random):
    """A field of standard deviation `amplitude` with the power k^slope."""
    waves = numpy.meshgrid(*[numpy.fft.fftfreq(extent)] * 2, numpy.fft.rfftfreq(extent), indexing="ij")
    k = numpy.sqrt(sum(wave**2 for wave in waves))
    k[0, 0, 0] = 1
    noise = numpy.fft.rfftn(random.standard_normal((extent,) * 3))
    field = numpy.fft.irfftn(noise * k**(slope / 2), s=(extent,) * 3, axes=(0, 1, 2))
    field -= field.mean()
    return (amplitude * field / field.std()).astype("f4")


def main(directory, boxes=60, extent=32):
    random = numpy.random.default_rng(1)
    directory, rows = pathlib.Path(directory), ["# name amplitude slope"]
    for i in range(boxes):
        split = directory / ("validation" if i % 5 == 4 else "train")
        split.mkdir(parents=True, exist_ok=True)
        amplitude, slope = random.uniform(0.5, 1.5), random.uniform(-2.5, -0.5)
        numpy.save(split / f"box_{i:03}.npy", box(extent, amplitude, slope, random))
        rows.append(f"box_{i:03} {amplitude:.5f} {slope:.5f}")
    (directory / "parameters.txt").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
