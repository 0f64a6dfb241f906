# SPDX-License-Identifier: Apache-2.0
"""The program's networks in PyTorch: see torch_module() of arrays.py. A network is one function and one entry of
NETWORKS; its layers have their names in checkpoints."""
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


def cosmoflow(net, x):
    options, layers = net.options, net._modules

    def scales(option):
        """The means and deviations of channels."""
        pairs = [pair.split(":") for pair in options.get(option, "0:1").split(",")]
        return torch.tensor([[float(number) for number in pair] for pair in pairs], dtype=torch.float64, device=x.device).T

    def dense(i):
        return F.linear(x, layers[f"fc{i}"].weight, layers[f"fc{i}"].bias)

    if options.get("values", "counts") == "counts":
        mean, deviation = scales("standardize")[..., None, None, None]
        x = ((torch.log1p(x) - mean) / deviation).to(x.dtype)
    for i in range(1, int(options["conv-layers"]) + 1):
        layer = layers[f"conv{i}"]
        kernel = layer.weight.shape[2]
        # SAME padding of TensorFlow: an even kernel has one plane more after than before.
        x = F.pad(x, [(kernel - 1) // 2, kernel // 2] * 3)
        x = F.max_pool3d(F.leaky_relu(F.conv3d(x, layer.weight, layer.bias), 0.3), 2)
        if f"norm{i}" in layers:
            x = net.norm(f"norm{i}", x)
    x = (x.mean((2, 3, 4)) if options.get("average") == "on" else x).flatten(1)
    last = sum(name.startswith("fc") for name in layers)
    for i in range(1, last):
        x = F.dropout(F.leaky_relu(dense(i), 0.3), float(options["dropout"]), net.training)
    x = dense(last)
    if options.get("loss") in ("ce", "bce"):
        return x
    mean, deviation = scales("scale-targets")
    return (mean + deviation * (1.2 * torch.tanh(x))).to(x.dtype)


NETWORKS = {"cosmoflow": cosmoflow, "unet3d": unet3d, "deepcam": deepcam}
