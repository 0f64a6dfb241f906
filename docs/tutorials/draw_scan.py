#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the middle slices of a scan with its predicted classes: draw_scan.py IMAGE MASK PICTURE. Needs NiBabel, Matplotlib."""
import sys

import matplotlib
import nibabel
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def main(image, mask, picture):
    values, classes = (numpy.asarray(nibabel.load(path).dataobj) for path in (image, mask))
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 3.2))
    for axis, each in enumerate(axes):
        middle = values.shape[axis] // 2
        each.imshow(values.take(middle, axis).T, cmap="gray", origin="lower", aspect="auto")
        labels = classes.take(middle, axis).T
        each.imshow(numpy.ma.masked_equal(labels, 0), alpha=0.5, vmin=0, vmax=classes.max(), origin="lower", aspect="auto")
        each.set_title("dhw"[axis] + f" = {middle}")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
