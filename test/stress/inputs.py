# SPDX-License-Identifier: Apache-2.0
"""Data sets as users' own programs make them, and what is wrong with some."""
import struct
import subprocess
from array import array
from pathlib import Path

from scene import Skipped, expect

NIFTI_TYPES = {"f": 16, "B": 2, "h": 4, "q": 1024}  # by the letters of Python's arrays


def write_nifti(path, extents, values, letter, codes=(1, 1), origin=0):
    """A volume of one channel; `codes` are those of its qform and sform, `origin` moves it along each axis."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *extents, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, NIFTI_TYPES[letter], 8 * array(letter).itemsize)
    struct.pack_into("<8f", header, 76, *[1] * 8)
    struct.pack_into("<2f", header, 108, 352, 1)
    struct.pack_into("<2h", header, 252, *codes)
    struct.pack_into("<3f", header, 268, origin, origin, origin)
    for axis in range(3):
        struct.pack_into("<4f", header, 280 + 16 * axis, *[float(axis == other) for other in range(3)], origin)
    header[344:348] = b"n+1\0"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(header) + array(letter, values).tobytes())


def volumes(letter="B", classes=2, labels_in=("train", "validation"), origin=0, codes=(1, 1), uneven=False,
            label=None):
    """A fault that makes {root}/volumes: 4 training and 2 validation cases with labels of `classes`, where the splits
    have any, or all `label`, stored as `letter`; labels lie at `origin`, images at 0."""
    def fault(scene):
        for split, count in (("train", 4), ("validation", 2)):
            for case in range(count):
                extents = (8 + 2 * case, 8, 16) if uneven and case % 2 == 0 else (16, 16, 16)
                size = extents[0] * extents[1] * extents[2]
                # Equal shares of the classes, along the slowest axis.
                labels = [at * classes // size if split in labels_in else 0 for at in range(size)]
                labels = labels if label is None else [label] * size
                values = [label + (at * 7919 % 101) / 50 - 1 for at, label in enumerate(labels)]
                of_case = scene / f"volumes/{split}/case_{case:05d}"
                write_nifti(of_case / "imaging.nii", extents, values, "f", codes)
                write_nifti(of_case / "segmentation.nii", extents, labels, letter, codes, origin)
    return fault


def orientation_codes(path):
    """The codes of qform and sform of a NIfTI file."""
    return struct.unpack_from("<2h", Path(path).read_bytes(), 252)


def hdf5_samples(voxels, targets=(4,)):
    """A fault that makes {root}/hdf5 of 4 training and 2 validation samples in the benchmark's HDF5 format;
    `voxels(file, counts, path)` stores the counts as /x."""
    def fault(scene):
        try:
            import h5py
            import numpy
        except ImportError as missing:
            raise Skipped(f"{missing}; make deps installs it") from None
        for split, count in (("train", 4), ("validation", 2)):
            (scene / "hdf5" / split).mkdir(parents=True)
            for sample in range(count):
                path = scene / f"hdf5/{split}/s{sample}.hdf5"
                counts = numpy.random.default_rng(sample).integers(0, 9, (16, 16, 16, 4)).astype("<i2")
                with h5py.File(path, "w", libver="latest") as file:
                    voxels(file, counts, path)
                    file["y"] = numpy.zeros(targets, "<f4")
    return fault


def plain_voxels(file, counts, path):
    file["x"] = counts


def channels_first(file, counts, path):
    file["x"] = counts.transpose(3, 0, 1, 2)


def filtered_voxels(file, counts, path):
    file.create_dataset("x", data=counts, chunks=(4, 16, 16, 4), compression="lzf")


def virtual_voxels(file, counts, path):
    """A virtual dataset; gone_sources() removes its sources."""
    import h5py
    source = path.with_suffix(".src")
    with h5py.File(source, "w") as other:
        other["v"] = counts
    layout = h5py.VirtualLayout(counts.shape, counts.dtype)
    layout[:] = h5py.VirtualSource(source.name, "v", counts.shape)
    file.create_virtual_dataset("x", layout)


def external_voxels(file, counts, path):
    raw = path.with_suffix(".raw")
    file.create_dataset("x", counts.shape, counts.dtype, external=[(str(raw), 0, counts.nbytes)])
    file["x"][:] = counts


def partial_voxels(file, counts, path):
    """Chunks of which the last was never written."""
    made = file.create_dataset("x", counts.shape, counts.dtype, chunks=(4, 16, 16, 4), fillvalue=1)
    made[:12] = counts[:12]


def without(pattern, fault):
    """The data set of a fault without the files of this pattern."""
    def lacking(scene):
        fault(scene)
        found = list(scene.root.glob(pattern))
        expect(found, f"no file {pattern}")
        for path in found:
            path.unlink()
    return lacking


def stepped_clock(scene):
    """Compiles {clock}: loaded before a program, it sets the clock of the day back by an hour as soon as
    the file named by STEP_AT is there."""
    library = scene.logs / "stepped_clock.so"
    source = Path(__file__).parent / "stepped_clock.c"
    made = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], capture_output=True, check=False)
    if made.returncode != 0:
        raise Skipped("no C compiler")
    scene.names["clock"] = library


def traced(scene):
    """Skips where programs may not be traced, as failing() needs."""
    done = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skipped("strace is not permitted here")


def failing(calls, error, path, command):
    """The command, in whose processes these system calls on the file fail."""
    return f"plain strace -f -o /dev/null -P {path} -e inject={calls}:error={error} {command}"
