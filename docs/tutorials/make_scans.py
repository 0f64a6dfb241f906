#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes scans of unequal extents with an organ and a lesion in each, named and laid out as a clinic might.

    make_scans.py DIR [PATIENTS] [EXTENT]

DIR gets scans/NAME.nii.gz and scans/NAME_seg.nii.gz of PATIENTS patients, with labels 0, 1 (organ) and 2 (lesion), one more
scan without labels, new_patient.nii.gz, and what its labels should be, truth.nii.gz. Needs NumPy and NiBabel.
"""
import pathlib
import sys

import nibabel
import numpy

NAMES = ("anna_k", "bruno_m", "clara_s", "david_w", "emma_h", "felix_b", "greta_l", "hugo_n", "ida_r", "jakob_f", "karla_t",
         "leo_v")
SPACING = (1.0, 1.0, 2.5)  # mm


def ball(extents, centre, radius):
    places = numpy.indices(extents).reshape(3, -1).T
    return (numpy.linalg.norm((places - centre) / radius, axis=1) < 1).reshape(extents)


def scan(extent, random):
    """A noisy image and its labels; the organ is brighter than its surroundings, the lesion darker than the organ."""
    extents = tuple(int(n) for n in random.integers((extent, extent, extent // 2), (extent + 9, extent + 9, extent // 2 + 5)))
    half = numpy.array(extents) / 2
    centre = half + random.uniform(-0.1, 0.1, 3) * half
    radius = numpy.array((0.3 * extent, 0.25 * extent, 0.15 * extent)) * random.uniform(0.9, 1.2)
    organ = ball(extents, centre, radius)
    lesion = ball(extents, centre + random.uniform(-0.3, 0.3, 3) * radius, 0.4 * radius) & organ
    labels = (organ.astype("u1") + lesion).astype("u1")
    image = numpy.choose(labels, (-1.0, 1.0, 0.0)) + 0.25 * random.standard_normal(extents)
    return image.astype("f4"), labels


def write(path, values):
    affine = numpy.diag((*SPACING, 1.0))
    affine[:3, 3] = -40, -50, 10
    nibabel.save(nibabel.Nifti1Image(values, affine), path)


def main(directory, patients=12, extent=40):
    random = numpy.random.default_rng(2)
    directory = pathlib.Path(directory)
    (directory / "scans").mkdir(parents=True, exist_ok=True)
    for number in range(patients):
        name = NAMES[number % len(NAMES)] + (str(number // len(NAMES)) if number >= len(NAMES) else "")
        image, labels = scan(extent, random)
        write(directory / "scans" / f"{name}.nii.gz", image)
        write(directory / "scans" / f"{name}_seg.nii.gz", labels)
    image, labels = scan(extent, random)
    write(directory / "new_patient.nii.gz", image)
    write(directory / "truth.nii.gz", labels)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
