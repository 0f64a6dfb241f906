# SPDX-License-Identifier: Apache-2.0
"""The program's networks in PyTorch: see torch_module() of arrays.py. A network is one function and one entry of
NETWORKS; its layers have their names in checkpoints."""
import functools

import torch
import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    """The parameters of each layer, whose shapes say what the layer is, and a function that runs the layers.

    Axes of one plane, such as those of images, are neither padded nor halved nor doubled.
    """

    def __init__(self, run, options, state):
        super().__init__()
        self.options, self._run = options, run
        for key, value in state.items():
            layer, name = key.split(".")
            if layer not in self._modules:
                self.add_module(layer, nn.Module())
                self._modules[layer].bias = None
            if name.startswith("running"):
                self._modules[layer].register_buffer(name, value)
            else:
                setattr(self._modules[layer], name, nn.Parameter(value))

    def forward(self, x):
        return self._run(self, x)

    def conv(self, name, x, stride=1, dilation=1):
        layer = self._modules[name]
        return F.conv3d(x, layer.weight, layer.bias, [stride if extent > 1 else 1 for extent in x.shape[2:]],
                        [taps // 2 * dilation for taps in layer.weight.shape[2:]], dilation,
                        x.shape[1] // layer.weight.shape[1])

    def larger(self, name, x):
        """Doubles the extents by 2 or 3 taps along an axis."""
        layer = self._modules[name]
        kernel = layer.weight.shape[2:]
        padding = [(taps - 1) // 2 for taps in kernel]
        return F.conv_transpose3d(x, layer.weight, layer.bias, [min(taps, 2) for taps in kernel], padding, padding)

    def norm(self, name, x):
        """Batch norm where the layer has moving averages, else instance norm."""
        layer = self._modules[name]
        if hasattr(layer, "running_mean"):
            return F.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, self.training)
        return F.instance_norm(x, weight=layer.weight, bias=layer.bias)


def unet3d(net, x):
    pools, levels, across = net.options["down"] == "pool", int(net.options["levels"]), []

    def block(stage, number, x, stride=1):
        return F.relu(net.norm(f"{stage}_norm{number}", net.conv(f"{stage}_conv{number}", x, stride)))

    for level in range(1, levels + 1):
        if pools and level > 1:
            x = F.max_pool3d(x, [min(extent, 2) for extent in x.shape[2:]])
        x = block(f"down{level}", 2, block(f"down{level}", 1, x, 1 if pools or level == 1 else 2))
        across.append(x)
    for level in range(levels - 1, 0, -1):
        x = torch.cat([net.larger(f"up{level}_larger", x), across[level - 1]], 1)
        x = block(f"up{level}", 2, block(f"up{level}", 1, x))
    return net.conv("head", x)


def deepcam(net, x):
    def normed(name, x):
        return F.relu(net.norm(f"{name}_norm", x))

    def convolved(name, x, **options):
        return normed(name, net.conv(name, x, **options))

    def separable(name, x, **options):
        return net.conv(f"{name}_pointwise", net.conv(f"{name}_depthwise", x, **options))

    def block(name, x, stride=1):
        """Without a convolution past it, each of its three convolutions is normalized, and the second rectified."""
        a, b, c, skip = (f"{name}_{part}" for part in ("a", "b", "c", "skip"))
        is_middle = skip not in net._modules
        y = net.norm(f"{b}_norm", separable(b, normed(a, separable(a, x))))
        if is_middle:
            return x + net.norm(f"{c}_norm", separable(c, F.relu(y)))
        return separable(c, y, stride=stride) + net.norm(f"{skip}_norm", net.conv(skip, x, stride=stride))

    x = convolved("conv2", convolved("conv1", x, stride=2))
    low = x = F.relu(block("block1", x, 2))
    last = int(net.options["middle-blocks"]) + 4
    for number in range(2, last):
        x = F.relu(block(f"block{number}", x, 2 if number < 4 else 1))
    x = block(f"block{last}", x)
    for name in ("conv3", "conv4", "conv5"):
        x = normed(name, separable(name, x, dilation=2))
    views = [convolved(f"aspp{i}", x, dilation=rate) for i, rate in enumerate((1, 6, 12, 18), 1)]
    scale, offset = (values[:, None, None, None] for values in net.aspp5_affine.parameters())
    mean = F.relu(net.conv("aspp5", x.mean((2, 3, 4), keepdim=True)) * scale + offset)
    x = convolved("bottleneck", torch.cat([*views, mean.expand(-1, -1, *x.shape[2:])], 1))
    for name in ("up1", "up2"):
        x = normed(name, net.larger(name, x))
    x = torch.cat([x, convolved("low", low)], 1)
    x = net.conv("merge3", convolved("merge2", convolved("merge1", x)))
    return net.larger("head", normed("up3", net.larger("up3", x)))


class Logarithm(nn.Module):
    """log(1 + x) of counts, standardized."""

    def __init__(self, scales):
        super().__init__()
        for name, numbers in zip(("mean", "deviation"), zip(*scales)):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float64).reshape(-1, 1, 1, 1), persistent=False)

    def forward(self, x):
        return ((torch.log1p(x) - self.mean) / self.deviation).to(x.dtype)


class ScaledTanh(nn.Module):
    """1.2 tanh(x) in the units of the targets."""

    def __init__(self, scales):
        super().__init__()
        for name, numbers in zip(("mean", "deviation"), zip(*scales)):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float64), persistent=False)

    def forward(self, x):
        return (self.mean + self.deviation * (1.2 * torch.tanh(x))).to(x.dtype)


def numbers_in(text, separator):
    return [int(number) for number in text.split(separator) if number]


def cosmoflow(options, state):
    def scales(option, count):
        text = options.get(option, ",".join(["0:1"] * count))
        return [[float(number) for number in pair.split(":")] for pair in text.split(",")]

    kernel, filters = int(options["kernel"]), int(options["filters"])
    *extents, channels = numbers_in(options["input"], "x")
    net = nn.Sequential()
    if options.get("values", "counts") == "counts":
        net.add_module("log", Logarithm(scales("standardize", channels)))
    for i in range(1, int(options["conv-layers"]) + 1):
        # SAME padding of TensorFlow: an even kernel has one plane more after than before.
        net.add_module(f"pad{i}", nn.ConstantPad3d(((kernel - 1) // 2, kernel // 2) * 3, 0.0))
        net.add_module(f"conv{i}", nn.Conv3d(channels, filters, kernel))
        net.add_module(f"act_conv{i}", nn.LeakyReLU(0.3))
        net.add_module(f"pool{i}", nn.MaxPool3d(2))
        if int(options.get("batch-norm", 0)) > 0:
            net.add_module(f"norm{i}", nn.BatchNorm3d(filters))
        channels, filters = filters, 2 * filters
        extents = [extent // 2 for extent in extents]
    if options.get("average") == "on":
        net.add_module("average", nn.AdaptiveAvgPool3d(1))
        extents = [1, 1, 1]
    net.add_module("flatten", nn.Flatten())
    inputs = channels * extents[0] * extents[1] * extents[2]
    hidden, dropout = numbers_in(options["fc"], ","), float(options["dropout"])
    for i, outputs in enumerate(hidden, 1):
        net.add_module(f"fc{i}", nn.Linear(inputs, outputs))
        net.add_module(f"act_fc{i}", nn.LeakyReLU(0.3))
        net.add_module(f"dropout{i}", nn.Dropout(dropout))
        inputs = outputs
    net.add_module(f"fc{len(hidden) + 1}", nn.Linear(inputs, int(options["targets"])))
    if options.get("loss") not in ("ce", "bce"):
        net.add_module("tanh", ScaledTanh(scales("scale-targets", int(options["targets"]))))
    net.load_state_dict(state)
    return net


NETWORKS = {"cosmoflow": cosmoflow, "unet3d": functools.partial(Network, unet3d),
            "deepcam": functools.partial(Network, deepcam)}
