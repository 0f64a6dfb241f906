#!/usr/bin/python3
"""Trains a small CosmoFlow with halomesh and proves every step of it against PyTorch in float64.

Optional: counts its cases as skipped, and says why, where PyTorch, h5py or NumPy is missing.
Environment: HALOMESH (the program), MPIRUN (launcher with its flags). Knows the program only by its
files: TFRecords in, checkpoints and metrics.jsonl out.

Each run has one step an epoch over all samples, so their order changes nothing but rounding, and
a checkpoint after each step. From one to the next, v_k = m v_(k-1) + rate g_k gives back all
gradients. All runs start from the weights of one checkpoint.

Tolerances. Let u = 2^-24. A fp32 sum of n terms makes n roundings of relative size u whose signs
are independent, so that its error is sqrt(n) u of its typical size, and beyond SIGMAS times
that with probability 2 exp(-SIGMAS^2 / 2) (Higham and Mary, SIAM J. Sci. Comput. 41 (2019), A2815).
Errors of successive layers add, to first order. A gradient of layer l has passed all layers
forward, those after l backward, and the sum over samples and voxels: its allowance is SIGMAS u
times the sum of sqrt(n) of these. The size that it is relative to is that of its last sum without
cancellation: the gradient that the sizes of the layer's input and output gradient would give.
"""
import json
import math
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile

KERNELS = (2, 3)
# (ranks, parts, what it is); replicas = ranks / parts. 3 parts do not divide 16, nor 2 the pooled 5.
MESHES = ((1, "1x1x1"), (4, "1x1x1"), (4, "2x2x1"), (4, "2x1x1"), (6, "1x3x2"))
ASPECTS = ("loss of each step", "gradients of each step", "weights after all steps")
CASES = len(KERNELS) * (1 + len(MESHES) * len(ASPECTS))

try:
    import h5py
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}; Debian has python3-torch, python3-h5py and python3-numpy")
    print(f"0 passed, 0 failed, {CASES} skipped")
    sys.exit(0)

EXTENTS, CHANNELS, BATCH, TARGETS = (24, 16, 10), 4, 4, 4  # three extents: an axis swapped is seen
FILTERS, CONV_LAYERS, DENSE = 4, 3, (16, 8)
STEPS, RATE, MOMENTUM = 10, 2.0**-8, float(numpy.float32(0.9))  # as fp32 holds them
SEEDS = {2: 4, 3: 9}  # of first weights: such that no step comes near a kink, which is a case
ROUNDING = 2.0**-24
SIGMAS = 4.0
LAYERS = [f"conv{i + 1}" for i in range(CONV_LAYERS)] + [f"fc{i + 1}" for i in range(len(DENSE) + 1)]
KEYS = [f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias")]


# --- data: TFRecord files of one tf.train.Example each, made here byte by byte

def crc32c_entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC32C = [crc32c_entry(byte) for byte in range(256)]


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, payload):
    """A length-delimited protobuf field."""
    length, size = b"", len(payload)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def write_sample(path, voxels, targets):
    def feature(key, value):
        return field(1, field(1, key) + field(2, value))

    x = field(1, field(1, voxels.astype("<i2").tobytes()))
    y = field(2, field(1, targets.astype("<f4").tobytes()))
    payload = field(1, feature(b"x", x) + feature(b"y", y))
    length = struct.pack("<Q", len(payload))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(length + masked_crc(length) + payload + masked_crc(payload))


def make_data(directory):
    """Random counts and targets; returns them as the network takes them (n,c,d,h,w), in float64."""
    random = numpy.random.RandomState(1)
    voxels = random.poisson(3.0, (BATCH, *EXTENTS, CHANNELS))
    targets = random.uniform(-1, 1, (BATCH, TARGETS)).astype("f4")
    for i in range(BATCH):
        write_sample(directory / "train" / f"{i}.tfrecord", voxels[i], targets[i])
    write_sample(directory / "validation" / "0.tfrecord", voxels[0], targets[0])
    x = torch.from_numpy(numpy.log1p(voxels.astype("f8"))).permute(0, 4, 1, 2, 3)
    return x, torch.from_numpy(targets.astype("f8"))


# --- the peer

class Flatten(torch.nn.Module):
    """To the order of a dense layer's inputs in checkpoints: d,h,w,c."""

    def forward(self, x):
        return x.permute(0, 2, 3, 4, 1).flatten(1)


def network(kernel):
    net, channels, extents = torch.nn.Sequential(), CHANNELS, list(EXTENTS)
    for i in range(CONV_LAYERS):
        # SAME padding: nothing before and one plane after for kernel 2, one on each side for 3.
        before, after = (kernel - 1) // 2, kernel // 2
        net.add_module(f"pad{i + 1}", torch.nn.ConstantPad3d((before, after) * 3, 0.0))
        net.add_module(f"conv{i + 1}", torch.nn.Conv3d(channels, FILTERS << i, kernel))
        net.add_module(f"act{i + 1}", torch.nn.LeakyReLU(0.3))
        net.add_module(f"pool{i + 1}", torch.nn.MaxPool3d(2))
        channels, extents = FILTERS << i, [e // 2 for e in extents]
    net.add_module("flatten", Flatten())
    features = channels * math.prod(extents)
    for i, outputs in enumerate((*DENSE, TARGETS)):
        net.add_module(f"fc{i + 1}", torch.nn.Linear(features, outputs))
        last = i == len(DENSE)
        net.add_module(f"act_fc{i + 1}", torch.nn.Tanh() if last else torch.nn.LeakyReLU(0.3))
        features = outputs
    return net.double()


def load(net, values):
    """Copies weights of a checkpoint; throws where names or shapes differ."""
    net.load_state_dict({key: torch.from_numpy(value) for key, value in values.items()})


def weights_of(net):
    return {key: value.detach().numpy() for key, value in net.named_parameters()}


def watched_pass(net, x, y):
    """Loss, misses, inputs and outputs of the layers; leaves gradients in them and in `net`."""
    inputs, outputs = {}, {}

    def watch(name):
        def hook(_, args, output):
            output.retain_grad()
            inputs[name], outputs[name] = args[0].detach(), output
        return hook

    hooks = [getattr(net, name).register_forward_hook(watch(name)) for name in LAYERS]
    net.zero_grad()
    prediction = 1.2 * net(x)
    loss = torch.nn.functional.mse_loss(prediction, y)
    loss.backward()
    for hook in hooks:
        hook.remove()
    return loss.item(), (prediction.detach() - y).abs(), inputs, outputs


def sizes_of(tensor):
    """What the rounding errors of a tensor's elements are relative to: an element that is small
    because its terms cancelled has the error of a typical one; a zero (padding, or a voxel that is
    no maximum) has none."""
    sizes = tensor.abs()
    typical = sizes[sizes > 0].pow(2).mean().sqrt()
    return torch.where(sizes > 0, sizes.clamp(min=typical.item()), sizes)


def reference_step(net, x, y):
    """Loss, its allowance, gradients and their allowances by key, and the distance of the nearest
    kink in units of what fp32 may be off by there."""
    loss, misses, inputs, outputs = watched_pass(net, x, y)
    shapes = {name: getattr(net, name).weight.shape for name in LAYERS}
    forward, kink, last = 0.0, math.inf, LAYERS[-1]
    for name in LAYERS:
        forward += math.sqrt(shapes[name][1:].numel())
        if name != last:
            nearest = nearest_kink(outputs[name].detach())
            kink = min(kink, nearest / (SIGMAS * ROUNDING * forward))
    # Through the last sums, and by rounding tanh, the scale and the prediction, 1.2 at most.
    dense = getattr(net, last)
    sums = sizes_of(inputs[last]) @ dense.weight.abs().T + dense.bias.abs()
    sums = (outputs[last].grad.abs() * sums).sum().item()
    loss_allowance = ROUNDING * (SIGMAS * forward * sums + 3 * 1.2 * 2 * misses.mean().item())
    gradients, allowances, backward = {}, {}, 0.0
    for name in reversed(LAYERS):
        layer, diff = getattr(net, name), outputs[name].grad
        sums = math.sqrt(diff.numel() / diff.shape[1])
        parameters = {kind: getattr(layer, kind) for kind in ("weight", "bias")}
        sizes = torch.autograd.grad(layer(sizes_of(inputs[name])), parameters.values(), sizes_of(diff))
        factor = SIGMAS * ROUNDING * (forward + backward + sums)
        for (kind, value), size in zip(parameters.items(), sizes):
            gradients[f"{name}.{kind}"] = value.grad.numpy().copy()
            allowances[f"{name}.{kind}"] = factor * size.numpy()
        backward += math.sqrt(shapes[name][0] * shapes[name][2:].numel())
    return loss, loss_allowance, gradients, allowances, kink


def nearest_kink(output):
    """How near a layer's output comes to where the network has no derivative, relative to its typical
    size: two equal maxima in a pooling window, or zero under a leaky ReLU."""
    size = output.pow(2).mean().sqrt()
    if output.dim() == 2:
        return (output.abs().min() / size).item()
    windows = output
    for axis in (2, 3, 4):
        windows = windows.unfold(axis, 2, 2)
    best = windows.flatten(5).topk(2).values
    gap = (best[..., 0] - best[..., 1]).min()
    return (torch.minimum(gap, best[..., 0].abs().min()) / size).item()


# --- halomesh

def train(kernel, ranks, parts, data, out, *more):
    command = [*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", str(ranks),
               os.environ.get("HALOMESH", "build/halomesh"), "train", "--data", data, "--out", out,
               "--parts", parts, "--kernel", kernel, "--batch", BATCH, "--dropout", 0, "--seed", SEEDS[kernel],
               "--input", "x".join(map(str, (*EXTENTS, CHANNELS))), "--targets", TARGETS,
               "--conv-layers", CONV_LAYERS, "--filters", FILTERS, "--fc", ",".join(map(str, DENSE)),
               "--schedule", "constant", "--lr", RATE, "--momentum", MOMENTUM, "--weight-decay", 0,
               "--epochs", 0, "--evaluate-every", 0, "--checkpoint-every", 1, "--keep", 1000, *more]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"halomesh train ended with {done.returncode}:\n{done.stdout}")


def checkpoint(out, step):
    """(weights, velocities) by key, float32."""
    with h5py.File(out / "checkpoints" / f"step-{step:09d}.h5", "r") as file:
        if file.attrs["step"] != step:
            raise ValueError(f"checkpoint of step {step} says {file.attrs['step']}")
        return tuple({key: file[f"{tree}/{key.replace('.', '/')}"][()] for key in KEYS}
                     for tree in ("parameters", "optimizer"))


def logged_losses(out):
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = {e["step"]: e["loss"] for e in events if e["event"] == "step"}
    if sorted(losses) != list(range(1, STEPS + 1)):
        raise ValueError(f"metrics.jsonl has steps {sorted(losses)}")
    return losses


# --- comparison

class Tally:
    passed = failed = 0

    def case(self, name, excess, compared):
        """`excess`: the largest error in units of its allowance."""
        good = compared > 0 and excess <= 1
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {name}: {compared} values, "
              f"largest error {excess:.3g} of what is allowed", flush=True)


class Excess:
    """Largest error in units of its allowance, and how many values were compared."""

    def __init__(self):
        self.worst, self.compared = 0.0, 0

    def add(self, value, expected, allowance):
        error = numpy.abs(numpy.asarray(value, "f8") - expected)
        # A tap that meets only padding has no gradient, and none is allowed: 0 of 0.
        with numpy.errstate(divide="ignore", invalid="ignore"):
            error = numpy.where(error == 0, 0.0, error / allowance)
        self.worst = max(self.worst, float(numpy.nan_to_num(error, nan=math.inf).max()))
        self.compared += error.size


def sgd_run(kernel, start, x, y):
    """Weights after all steps of PyTorch's own optimizer, what fp32 may be off by, distance of the nearest kink.

    An error of a gradient goes through the recurrence of the step as the gradient itself does. The
    gradient at weights that are off by a little is off by the curvature times that, which may at
    most double it: the rate is far below that at which the steps diverge.
    """
    net, kink = network(kernel), math.inf
    load(net, start)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    velocity_error = {key: 0.0 for key in KEYS}
    weight_error = {key: 0.0 for key in KEYS}
    for _ in range(STEPS):
        _, _, _, allowances, nearest = reference_step(net, x, y)
        kink = min(kink, nearest)
        optimizer.step()
        for key in KEYS:
            velocity_error[key] = MOMENTUM * velocity_error[key] + RATE * 2 * allowances[key]
            rounded = ROUNDING * numpy.abs(weights_of(net)[key])
            weight_error[key] = weight_error[key] + velocity_error[key] + rounded
    return weights_of(net), weight_error, kink


def compare_steps(kernel, out, start, x, y):
    net, losses, gradients = network(kernel), Excess(), Excess()
    logged, weights = logged_losses(out), start
    velocities = {key: numpy.zeros_like(start[key]) for key in KEYS}
    for step in range(1, STEPS + 1):
        load(net, weights)
        loss, loss_allowance, expected, allowances, _ = reference_step(net, x, y)
        losses.add(logged[step], loss, loss_allowance)
        weights, new_velocities = checkpoint(out, step)
        for key in KEYS:
            kept = MOMENTUM * velocities[key].astype("f8")
            # Momentum, rate and velocity are rounded to fp32, too: once each, and two products.
            rounded = 3 * ROUNDING * (numpy.abs(kept) + numpy.abs(new_velocities[key])) / RATE
            gradients.add((new_velocities[key] - kept) / RATE, expected[key], allowances[key] + rounded)
        velocities = new_velocities
    return losses, gradients, weights


def main():
    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="halomesh-pytorch-") as name:
        base = pathlib.Path(name)
        x, y = make_data(base / "data")
        for kernel in KERNELS:
            train(kernel, 1, "1x1x1", base / "data", base / f"start{kernel}", "--steps", 1)
            start, _ = checkpoint(base / f"start{kernel}", 1)
            file = base / f"start{kernel}" / "checkpoints" / "step-000000001.h5"
            final, final_allowance, kink = sgd_run(kernel, start, x, y)
            # Twice: fp32 also trains at weights that are a little off.
            tally.case(f"kernel {kernel}: twice what fp32 may be off by leads over no kink",
                       2 / kink, STEPS)
            for ranks, parts in MESHES:
                out = base / f"k{kernel}-{ranks}-{parts}"
                train(kernel, ranks, parts, base / "data", out, "--steps", STEPS, "--init-from", file)
                losses, gradients, weights = compare_steps(kernel, out, start, x, y)
                last = Excess()
                for key in KEYS:
                    last.add(weights[key], final[key], final_allowance[key])
                for aspect, excess in zip(ASPECTS, (losses, gradients, last)):
                    tally.case(f"kernel {kernel}, {ranks} ranks, parts {parts}: {aspect}",
                               excess.worst, excess.compared)
    print(f"{tally.passed} passed, {tally.failed} failed, 0 skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
