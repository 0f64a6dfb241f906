#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Scans and their labels under the names that people give them: the same losses from every layout; splits by names;
what is said of unequal extents; a scan without labels.

Counts its cases as skipped, and says why, where NumPy, NiBabel or the program's libnifti2 is missing. Environment: HALOMESH
(the program), MPIRUN (launcher with its flags).
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "harness"))
from python_cases import needs, run  # noqa: E402

needs("nibabel")
from array_scene import Scene, halomesh, hdf5_each, write_table  # noqa: E402
import nibabel  # noqa: E402
import numpy  # noqa: E402

NAMES = ("anna", "bruno.k", "case_9", "d-1")
NETWORK = ("--model unet3d --levels 2 --filters 4 --classes 3 --input 8x8x8x1 --patches random --pad 0 --batch 2 "
           "--epochs 1").split()


def scans(number, shape):
    random = numpy.random.default_rng(number)
    labels = random.integers(0, 3, shape).astype("u1")
    return (labels + random.standard_normal(shape)).astype("f4"), labels


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, numpy.diag((1, 1, 2.5, 1))), path)


def flat(split, name, image, labels):
    write(split / f"{name}.nii.gz", image)
    write(split / f"{name}_seg.nii.gz", labels)


def by_patient(split, name, image, labels):
    write(split / name.replace(".", "_") / "ct.nii", image)
    write(split / name.replace(".", "_") / "ct_mask.nii", labels)


def usual(split, name, image, labels):
    write(split / f"case_{NAMES.index(name)}" / "imaging.nii.gz", image)
    write(split / f"case_{NAMES.index(name)}" / "segmentation.nii.gz", labels)


def nnunet(split, name, image, labels):
    write(split.parent / split.name.replace("labels", "images") / f"{name}_0000.nii.gz", image)
    write(split.parent / split.name.replace("images", "labels") / f"{name}.nii.gz", labels)


class Layouts(Scene):
    def fill_scans(self, layout, splits=("train", "validation")):
        self.made += 1
        data = self.directory / f"data-{self.made}"
        for split in splits:
            for number, name in enumerate(NAMES):
                layout(data / split, name, *scans(number, (10, 9 + number, 8)))
        return data

    def losses_of(self, data, *options):
        return self.losses(data, *options, network=NETWORK)

    def test_every_layout_has_the_losses_of_the_usual_one(self):
        wanted = self.losses_of(self.fill_scans(usual))
        for layout in (flat, by_patient):
            self.assertEqual(self.losses_of(self.fill_scans(layout)), wanted)

    def test_a_share_by_names_is_stable(self):
        share = ("--split", 0.4)
        wanted = self.losses_of(self.fill_scans(flat, ("train",)), *share)
        self.assertEqual(self.losses_of(self.fill_scans(flat, ("",)), *share), wanted)
        data = self.fill_scans(nnunet, ("imagesTr",))
        self.assertEqual(self.losses_of(data, *share), wanted)
        checkpoint = self.run_of()
        told = self.done(1, "eval", "--checkpoint", checkpoint, "--data", data, "--windows",
                        "--baseline", "background")
        self.assertRegex(told.out, r"samples [123]\n")
        self.assertIn("has validation/", self.refusal(self.fill_scans(flat), *share, network=NETWORK))
        archive = self.directory / "archive"
        self.done(2, "convert", "--from", data, "--to", archive, "--input", "1x1x1x1", "--any-extents", "--classes", 3,
                        *share, "--verify")
        self.assertEqual(self.losses_of(archive), wanted)
        self.assertIn("holds an archive", self.refusal(archive, *share, network=NETWORK))
        # A checkpoint keeps its share; an archive is divided already.
        self.done(1, "eval", "--checkpoint", checkpoint, "--data", archive, "--windows")

    def test_numbers_of_scans_are_in_a_table(self):
        wanted = self.losses(self.fill(hdf5_each("f4")))

        def tabled(directory, split, x, y):
            for i, box in enumerate(x):
                write(directory / f"box_{i}.nii.gz", box.astype("f4"))
            write_table(directory / "rows.csv", split, y)
        data = self.fill(tabled)
        self.assertEqual(self.losses(data, "--targets-from", "rows.csv"), wanted)
        for cut, one in zip(self.losses(data, "--targets-from", "rows.csv", "--parts", "2x1x1", ranks=2), wanted):
            self.assertAlmostEqual(cut, one, delta=5e-6 * abs(one))

    def test_only_axes_of_equal_spacing_are_exchanged(self):
        data = self.fill_scans(flat)
        for augment, symmetries in (("on", 16), ("flips", 8)):  # 48 of a cube, were the spacing equal
            out = self.directory / augment
            told = halomesh(1, "train", "--data", data, "--out", out, *NETWORK, "--augment", augment)
            self.assertIn(f"augmentation: {symmetries} flips", told.out)
            self.assertNotIn("point to", told.err)
        image = nibabel.load(data / "train" / "d-1.nii.gz")
        turned = numpy.diag((-1, 1, 2.5, 1))
        nibabel.save(nibabel.Nifti1Image(image.get_fdata(), turned), data / "train" / "d-1.nii.gz")
        self.losses(data, network=NETWORK, told="the axes of d-1 point to LAS, those of anna to RAS")

    def test_a_scan_without_labels_is_enough_to_predict(self):
        data = self.fill_scans(flat)
        self.losses_of(data)
        new = self.directory / "new_patient.nii.gz"
        write(new, scans(9, (12, 11, 10))[0])
        out = self.directory / "masks"
        told = self.done(2, "predict", "--checkpoint", self.run_of(), "--data", new, "--windows",
                        "--parts", "2x1x1", "--out", out)
        self.assertNotIn("Dice", told.out)
        mask = nibabel.load(out / "new_patient.nii")
        self.assertEqual(mask.shape, (12, 11, 10))
        self.assertEqual(mask.affine.tolist(), nibabel.load(new).affine.tolist())

    def test_what_is_wrong_is_told_with_its_cure(self):
        whole = [word for word in NETWORK if word not in ("--patches", "random", "--pad", "0")]
        told = " ".join(self.refusal(self.fill_scans(flat), network=whole).split())
        self.assertIn("cases have 10 to 10 along d, 9 to 12 along h and 8 to 8 along w", told)
        self.assertIn("--patches random", told)
        data = self.fill_scans(flat)
        (data / "train" / "anna_seg.nii.gz").unlink()
        told = " ".join(self.refusal(data, network=NETWORK).split())
        self.assertIn("anna.nii.gz has no segmentation hint: name it anna_seg.nii.gz beside the image", told)
        (data / "train" / "anna.nii.gz").rename(data / "train" / "anna_0001.nii.gz")
        self.assertIn("is a further channel of its case", self.refusal(data, network=NETWORK))
        empty = self.directory / "empty"
        (empty / "train").mkdir(parents=True)
        (empty / "train" / "anna.dcm").write_text("")
        told = self.refusal(empty, network=NETWORK)
        for pattern in ("train-NNNNN.h5", "train/*.h5", "train/*.npy", "train/*.tfrecord*", "CASE_seg.nii.gz",
                        "imagesTr/CASE_0000.nii.gz"):
            self.assertIn(pattern, told)


if __name__ == "__main__":
    sys.exit(run())
