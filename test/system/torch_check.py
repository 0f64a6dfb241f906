# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with PyTorch share: how large an error may be, and the verdict on a case.

Tolerances. Let u = 2^-24. A fp32 sum of n terms makes n roundings of relative size u whose signs
are independent, so that its error is sqrt(n) u of its typical size, and beyond SIGMAS times
that with probability 2 exp(-SIGMAS^2 / 2) (Higham and Mary, SIAM J. Sci. Comput. 41 (2019), A2815).
Errors of successive layers add, to first order. A gradient of layer l has passed all layers
forward, those after l backward, and the sum over samples and voxels: its allowance is SIGMAS u
times the sum of sqrt(n) of these. The size that it is relative to is that of its last sum without
cancellation: the gradient that the sizes of the layer's input and output gradient would give.
"""
import numpy
import torch

ROUNDING, SIGMAS = 2.0**-24, 4.0


def sizes_of(tensor):
    """What the rounding errors of a tensor's elements are relative to: an element that is small
    because its terms cancelled has the error of a typical one; a zero (padding, or a voxel that is
    no maximum) has none."""
    sizes = tensor.abs()
    typical = sizes[sizes > 0].pow(2).mean().sqrt()
    return torch.where(sizes > 0, sizes.clamp(min=typical.item()), sizes)


def excess(value, expected, allowance):
    """Errors in units of their allowance, in one row."""
    error = numpy.abs(numpy.asarray(value, "f8") - expected)
    # A tap that meets only padding has no gradient, and none is allowed: 0 of 0.
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.where(error == 0, 0.0, error / allowance).ravel()


def judge(name, rows):
    """Prints the verdict on a case: whether all of its errors are within their allowance."""
    errors = numpy.concatenate(rows)
    good = bool(errors.size > 0 and (errors <= 1).all())
    print(f"{'ok  ' if good else 'FAIL'} {name}: {errors.size} values, largest error "
          f"{errors.max():.3g} of what is allowed", flush=True)
    return good
