# SPDX-License-Identifier: Apache-2.0
"""DeepCAM in PyTorch, for pytorch_networks_test.py: each layer is run by a pass, which has the
weights, makes them where they are missing, or notes what errors depend on.

As in github.com/mlcommons/hpc, deepcam/src/deepCam/architecture/deeplab_xception.py, at any width.
Tensors have the shape (samples, channels, rows, 1, columns).
"""
import torch
import torch.nn.functional as F

CLASS_WEIGHTS = (1.001729912096556, 2.614611223975222, 1.716419747958960)


class Layers:
    """The kinds of layers of DeepCAM, run by `passed`; `scaled` gives the widths of a narrower network."""

    def __init__(self, passed, settings):
        self.passed = passed
        self.filters = int(settings["filters"])

    def scaled(self, published):
        return published * self.filters // 32

    def conv(self, name, filters, x, kernel=3, stride=1, dilation=1, bias=False):
        """filters: those of the published network."""
        filters, padding = self.scaled(filters), kernel // 2 * dilation
        self.passed.need(f"{name}.weight", (filters, x.shape[1], kernel, 1, kernel))
        if bias:
            self.passed.need(f"{name}.bias", (filters,))
        return self.passed.apply(
            name, ("weight", "bias") if bias else ("weight",),
            lambda y, w, b=None: F.conv3d(y, w, b, (stride, 1, stride), (padding, 0, padding),
                                          (dilation, 1, dilation)), x, kernel**2 * x.shape[1])

    def separable(self, name, filters, x, stride=1, dilation=1):
        channels = x.shape[1]
        self.passed.need(f"{name}_depthwise.weight", (channels, 1, 3, 1, 3))
        x = self.passed.apply(
            f"{name}_depthwise", ("weight",),
            lambda y, w: F.conv3d(y, w, None, (stride, 1, stride), (dilation, 0, dilation),
                                  (dilation, 1, dilation), channels), x, 9)
        return self.conv(f"{name}_pointwise", filters, x, 1)

    def larger(self, name, filters, x):
        """filters: as they are."""
        self.passed.need(f"{name}.weight", (x.shape[1], filters, 3, 1, 3))
        return self.passed.apply(
            name, ("weight",),
            lambda y, w: F.conv_transpose3d(y, w, None, (2, 1, 2), (1, 0, 1), (1, 0, 1)), x,
            4 * x.shape[1])

    def norm(self, name, x):
        for kind in ("weight", "bias", "running_mean", "running_variance"):
            self.passed.need(f"{name}_norm.{kind}", (x.shape[1],))
        return self.passed.apply(
            f"{name}_norm", ("weight", "bias"),
            lambda y, w, b: F.batch_norm(y, None, None, w, b, True, 0, self.passed.EPSILON), x, 4)

    def affine(self, name, x):
        for kind in ("weight", "bias"):
            self.passed.need(f"{name}_affine.{kind}", (x.shape[1],))
        return self.passed.apply(
            f"{name}_affine", ("weight", "bias"),
            lambda y, w, b: y * w[:, None, None, None] + b[:, None, None, None], x, 2)

    def sum(self, *tensors):
        return self.passed.join(sum, *tensors)

    def cat(self, *tensors):
        return self.passed.join(lambda all_of_them: torch.cat(all_of_them, 1), *tensors)

    def rectified(self, name, x):
        return self.passed.relu(self.norm(name, x))


def down(layers, name, filters, x):
    y = layers.rectified(f"{name}_a", layers.separable(f"{name}_a", filters, x))
    y = layers.norm(f"{name}_b", layers.separable(f"{name}_b", filters, y))
    y = layers.separable(f"{name}_c", filters, y, 2)
    skip = layers.norm(f"{name}_skip", layers.conv(f"{name}_skip", filters, x, 1, 2))
    return layers.passed.relu(layers.sum(y, skip))


def middle(layers, name, x):
    y = layers.rectified(f"{name}_a", layers.separable(f"{name}_a", 728, x))
    y = layers.rectified(f"{name}_b", layers.separable(f"{name}_b", 728, y))
    y = layers.norm(f"{name}_c", layers.separable(f"{name}_c", 728, y))
    return layers.passed.relu(layers.sum(y, x))


def leave(layers, name, x):
    y = layers.rectified(f"{name}_a", layers.separable(f"{name}_a", 728, x))
    y = layers.norm(f"{name}_b", layers.separable(f"{name}_b", 1024, y))
    y = layers.separable(f"{name}_c", 1024, y)
    return layers.sum(y, layers.norm(f"{name}_skip", layers.conv(f"{name}_skip", 1024, x, 1)))


def pyramid(layers, x):
    views = [layers.rectified("aspp1", layers.conv("aspp1", 256, x, 1))]
    for name, rate in (("aspp2", 6), ("aspp3", 12), ("aspp4", 18)):
        views.append(layers.rectified(name, layers.conv(name, 256, x, dilation=rate)))
    y = layers.passed.join(lambda tensors: tensors[0].mean((2, 3, 4), keepdim=True), x)
    y = layers.passed.relu(layers.affine("aspp5", layers.conv("aspp5", 256, y, 1)))
    views.append(layers.passed.join(lambda tensors: tensors[0].expand(-1, -1, *x.shape[2:]), y))
    return layers.rectified("bottleneck", layers.conv("bottleneck", 256, layers.cat(*views), 1))


def deepcam(passed, settings, x):
    """The logits, by the pass `passed`."""
    layers = Layers(passed, settings)
    x = layers.rectified("conv1", layers.conv("conv1", 32, x, stride=2))
    x = layers.rectified("conv2", layers.conv("conv2", 64, x))
    low = x = down(layers, "block1", 128, x)
    x = down(layers, "block2", 256, x)
    x = down(layers, "block3", 728, x)
    blocks = int(settings["middle-blocks"])
    for block in range(4, 4 + blocks):
        x = middle(layers, f"block{block}", x)
    x = leave(layers, f"block{4 + blocks}", x)
    for name, filters in (("conv3", 1536), ("conv4", 1536), ("conv5", 2048)):
        x = layers.rectified(name, layers.separable(name, filters, x, dilation=2))
    x = pyramid(layers, x)
    low = layers.rectified("low", layers.conv("low", 48, low, 1))
    for name in ("up1", "up2"):
        x = layers.rectified(name, layers.larger(name, layers.scaled(256), x))
    x = layers.cat(x, low)
    for name in ("merge1", "merge2"):
        x = layers.rectified(name, layers.conv(name, 256, x))
    x = layers.conv("merge3", 256, x, 1, bias=True)
    x = layers.rectified("up3", layers.larger("up3", layers.scaled(256), x))
    return layers.larger("head", len(CLASS_WEIGHTS), x)


def weighted_entropy(logits, labels):
    """The mean over samples and pixels, not divided by the weights."""
    weights = torch.tensor(CLASS_WEIGHTS, dtype=logits.dtype)
    return F.cross_entropy(logits, labels, weights, reduction="none").mean()
