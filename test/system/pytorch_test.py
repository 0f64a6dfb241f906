#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small CosmoFlow with halomesh and checks every step against PyTorch in float64.

Optional: counts its cases as skipped, and says why, where PyTorch, h5py or NumPy is missing.
Environment: HALOMESH (the program), MPIRUN (launcher with its flags). Uses the program only through its
files: TFRecords in, checkpoints and metrics.jsonl out.

Each run has one step per epoch over all samples, so their order changes nothing but rounding, and
a checkpoint after each step. From one to the next, v_k = m v_(k-1) + rate g_k gives back all
gradients. All runs start from the weights of one checkpoint.

Tolerances are those of torch_check.py.
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
# (ranks, parts), replicas = ranks / parts. 3 parts do not divide 16, nor 2 the pooled 5.
MESHES = ((1, "1x1x1"), (4, "1x1x1"), (4, "2x2x1"), (4, "2x1x1"), (6, "1x3x2"))
ASPECTS = ("loss of each step", "gradients of each step", "weights after all steps")
OPTIMIZERS = ("nesterov", "adamw")
CASES = len(KERNELS) * (1 + len(MESHES) * len(ASPECTS)) + len(OPTIMIZERS)

try:
    import h5py
    import numpy
    import torch

    from torch_check import ROUNDING, SIGMAS, excess, judge, sizes_of
except ImportError as missing:
    print(f"skipped: {missing}; make test TORCH=1 installs it\n"
          f"0 passed, 0 failed, {CASES} skipped")
    sys.exit(0)

EXTENTS, CHANNELS, BATCH, TARGETS = (24, 16, 10), 4, 4, 4  # three extents: an axis swapped is seen
FILTERS, CONV_LAYERS, DENSE = 4, 3, (16, 8)
STEPS, RATE, MOMENTUM = 10, 2.0**-8, float(numpy.float32(0.9))  # as fp32 holds them
SEEDS = {2: 4, 3: 9}  # of first weights: such that no step comes near a kink, which is a case
LAYERS = ("conv1", "conv2", "conv3", "fc1", "fc2", "fc3")
KEYS = [f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias")]


# --- data: TFRecord files of one tf.train.Example each, made here byte by byte
def masked_crc(data):
    """CRC-32C bit by bit, rotated and offset as TFRecord has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, payload):
    """A length-delimited protobuf field."""
    length, size = b"", len(payload)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def write_sample(path, voxels, targets):
    x = field(1, field(1, voxels.astype("<i2").tobytes()))
    y = field(2, field(1, targets.astype("<f4").tobytes()))
    entries = [field(1, field(1, key) + field(2, value)) for key, value in ((b"x", x), (b"y", y))]
    payload = field(1, b"".join(entries))
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
    forward = staticmethod(lambda x: x.permute(0, 2, 3, 4, 1).flatten(1))


def network(kernel):
    net, channels = torch.nn.Sequential(), CHANNELS
    for i in range(CONV_LAYERS):
        # SAME padding: nothing before and one plane after for kernel 2, one on each side for 3.
        before, after = (kernel - 1) // 2, kernel // 2
        net.add_module(f"pad{i + 1}", torch.nn.ConstantPad3d((before, after) * 3, 0.0))
        net.add_module(f"conv{i + 1}", torch.nn.Conv3d(channels, FILTERS << i, kernel))
        net.add_module(f"act{i + 1}", torch.nn.LeakyReLU(0.3))
        net.add_module(f"pool{i + 1}", torch.nn.MaxPool3d(2))
        channels = FILTERS << i
    net.add_module("flatten", Flatten())
    features = channels * math.prod(extent >> CONV_LAYERS for extent in EXTENTS)
    for i, outputs in enumerate((*DENSE, TARGETS)):
        net.add_module(f"fc{i + 1}", torch.nn.Linear(features, outputs))
        last = i == len(DENSE)
        net.add_module(f"act_fc{i + 1}", torch.nn.Tanh() if last else torch.nn.LeakyReLU(0.3))
        features = outputs
    return net.double()


def load(net, weights):
    net.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
    return net


def reference_step(net, x, y):
    """Loss, its allowance, gradients and their allowances by key, and how near a kink came in units
    of what fp32 may be off by there. Leaves gradients in `net`."""
    inputs, outputs = {}, {}
    for name, module in net.named_children():
        inputs[name], x = x.detach(), module(x)
        if name in LAYERS:
            outputs[name] = x
            x.retain_grad()
    net.zero_grad()
    loss = torch.nn.functional.mse_loss(1.2 * x, y)
    loss.backward()
    shapes = {name: getattr(net, name).weight.shape for name in LAYERS}
    last, forward, kink = LAYERS[-1], 0.0, math.inf
    for name in LAYERS:
        forward += math.sqrt(shapes[name][1:].numel())
        if name != last:
            nearest = nearest_kink(outputs[name].detach())
            kink = min(kink, nearest / (SIGMAS * ROUNDING * forward))
    # Through the last sums, and by rounding tanh, the scale and the prediction, 1.2 at most.
    layer = getattr(net, last)
    size = sizes_of(inputs[last]) @ layer.weight.abs().T + layer.bias.abs()
    size = (outputs[last].grad.abs() * size).sum().item()
    miss = (1.2 * x.detach() - y).abs().mean().item()
    loss_allowance = ROUNDING * (SIGMAS * forward * size + 3 * 1.2 * 2 * miss)
    gradients, allowances, backward = {}, {}, 0.0
    for name in reversed(LAYERS):
        layer, diff = getattr(net, name), outputs[name].grad
        last_sum = math.sqrt(diff.numel() / diff.shape[1])
        factor = SIGMAS * ROUNDING * (forward + backward + last_sum)
        sizes = torch.autograd.grad(layer(sizes_of(inputs[name])), (layer.weight, layer.bias),
                                    sizes_of(diff))
        for kind, size in zip(("weight", "bias"), sizes):
            gradients[f"{name}.{kind}"] = getattr(layer, kind).grad.numpy().copy()
            allowances[f"{name}.{kind}"] = factor * size.numpy()
        backward += math.sqrt(shapes[name][0] * shapes[name][2:].numel())
    return loss.item(), loss_allowance, gradients, allowances, kink


def nearest_kink(output):
    """How near a layer's output comes to where the network has no derivative (two equal maxima in a
    pooling window, or zero under a leaky ReLU), relative to its typical size."""
    size = output.pow(2).mean().sqrt()
    if output.dim() == 2:
        return (output.abs().min() / size).item()
    windows = output.unfold(2, 2, 2).unfold(3, 2, 2).unfold(4, 2, 2)
    best = windows.flatten(5).topk(2).values
    return (torch.minimum(best[..., 0] - best[..., 1], best[..., 0].abs()).min() / size).item()


# --- halomesh
def train(kernel, ranks, parts, data, out, *more, decay=0):
    options = (f"--kernel {kernel} --parts {parts} --batch {BATCH} --seed {SEEDS[kernel]}"
               f" --input {EXTENTS[0]}x{EXTENTS[1]}x{EXTENTS[2]}x{CHANNELS} --targets {TARGETS}"
               f" --conv-layers {CONV_LAYERS} --filters {FILTERS} --fc {DENSE[0]},{DENSE[1]}"
               f" --schedule constant --lr {RATE} --weight-decay {decay}"
               " --dropout 0 --epochs 0 --evaluate-every 0 --checkpoint-every 1 --keep 1000")
    if "adamw" not in more:
        options += f" --momentum {MOMENTUM}"
    command = [*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", str(ranks),
               os.environ.get("HALOMESH", "build/halomesh"), "train", "--data", str(data),
               "--out", str(out), *options.split(), *map(str, more)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=1200, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"halomesh train ended with {done.returncode}:\n{done.stdout}")


def checkpoint(out, step, trees=("parameters", "optimizer")):
    """(weights, velocities) by key, float32."""
    with h5py.File(out / "checkpoints" / f"step-{step:09d}.h5", "r") as file:
        return tuple({key: file[f"{tree}/{key.replace('.', '/')}"][()] for key in KEYS}
                     for tree in trees)


# --- comparison
def sgd_run(kernel, start, x, y):
    """Weights after all steps of PyTorch's own optimizer, what fp32 may be off by, and how near a
    kink came.

    An error of a gradient goes through the recurrence of the step as the gradient itself does. The
    gradient at weights that are off by a little is off by the curvature times that, which may at
    most double it: the rate is far below that at which the steps diverge.
    """
    net, kink = load(network(kernel), start), math.inf
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    velocity_error, weight_error = dict.fromkeys(KEYS, 0.0), dict.fromkeys(KEYS, 0.0)
    for _ in range(STEPS):
        _, _, _, allowances, nearest = reference_step(net, x, y)
        kink = min(kink, nearest)
        optimizer.step()
        for key in KEYS:
            velocity_error[key] = MOMENTUM * velocity_error[key] + RATE * 2 * allowances[key]
            rounded = ROUNDING * net.get_parameter(key).detach().abs().numpy()
            weight_error[key] = weight_error[key] + velocity_error[key] + rounded
    return {key: net.get_parameter(key).detach().numpy() for key in KEYS}, weight_error, kink


def compare_steps(kernel, out, start, x, y):
    """Errors of all losses and gradients, at this run's own weights; and its last weights."""
    net, losses, gradients = network(kernel), [], []
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    logged = {e["step"]: e["loss"] for e in events if e["event"] == "step"}
    weights, velocities = start, {key: numpy.zeros_like(start[key]) for key in KEYS}
    for step in range(1, STEPS + 1):
        load(net, weights)
        loss, loss_allowance, expected, allowances, _ = reference_step(net, x, y)
        losses.append(excess(logged[step], loss, loss_allowance))
        weights, new_velocities = checkpoint(out, step)
        for key in KEYS:
            kept = MOMENTUM * velocities[key].astype("f8")
            gradient = (new_velocities[key] - kept) / RATE
            # The products and the sum that made the velocity are rounded to fp32, too.
            rounded = 3 * ROUNDING * (numpy.abs(kept) + numpy.abs(new_velocities[key])) / RATE
            gradients.append(excess(gradient, expected[key], allowances[key] + rounded))
        velocities = new_velocities
    return losses, gradients, weights


def check_kernel(kernel, base, x, y):
    """Whether each case of this kernel is good."""
    data, first = base / "data", base / f"start{kernel}"
    train(kernel, 1, "1x1x1", data, first, "--steps", 1)
    start, _ = checkpoint(first, 1)
    final, allowances, kink = sgd_run(kernel, start, x, y)
    # Twice: fp32 also trains at weights that are a little off.
    good = [judge(f"kernel {kernel}: rounding leads over no kink", [excess(2, 0, kink)])]
    for ranks, parts in MESHES:
        out = base / f"kernel{kernel}-{ranks}-{parts}"
        train(kernel, ranks, parts, data, out, "--steps", STEPS, "--init-from",
              first / "checkpoints" / "step-000000001.h5")
        losses, gradients, weights = compare_steps(kernel, out, start, x, y)
        last = [excess(weights[key], final[key], allowances[key]) for key in KEYS]
        for aspect, rows in zip(ASPECTS, (losses, gradients, last)):
            good.append(judge(f"kernel {kernel}, {ranks} ranks, parts {parts}: {aspect}", rows))
    return good


def check_optimizer(name, base):
    """PyTorch's optimizer, given the gradients of a run of ours, must make the weights of that run.

    A gradient follows from two values of the momentum, whose roundings it has tenfold. They and
    those of each step stay far below 1000 u of a step's length, which is at most about the rate
    with adamw; any other formula is off by a good part of it.
    """
    decay, betas, out = 0.125, (0.9, 0.999), base / name
    train(2, 4, "2x1x1", base / "data", out, "--steps", STEPS, "--optimizer", name, "--init-from",
          base / "start2" / "checkpoints" / "step-000000001.h5", decay=decay)
    trees = ("parameters", "first_moment" if name == "adamw" else "optimizer")
    before, _ = checkpoint(base / "start2", 1)
    net = load(network(2), before)
    if name == "adamw":
        optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, betas=betas, eps=1e-6,
                                      weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM, nesterov=True,
                                    weight_decay=decay)
    moments, rows = {key: numpy.zeros(before[key].shape) for key in KEYS}, []
    for step in range(1, STEPS + 1):
        weights, new = checkpoint(out, step, trees)
        for key in KEYS:
            if name == "adamw":
                gradient = (new[key] - betas[0] * moments[key]) / (1 - betas[0])
            else:
                gradient = (new[key] - MOMENTUM * moments[key]) / RATE - decay * before[key]
            moments[key] = new[key].astype("f8")
            net.get_parameter(key).grad = torch.from_numpy(numpy.ascontiguousarray(gradient))
        optimizer.step()
        for key in KEYS:
            largest = max(1.0, numpy.abs(new[key]).max() / RATE) if name != "adamw" else 1.0
            allowance = step * ROUNDING * (1000 * RATE * largest + 2 * numpy.abs(weights[key]))
            rows.append(excess(weights[key], net.get_parameter(key).detach().numpy(), allowance))
        before = weights
    return judge(f"{name} against PyTorch's", rows)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="halomesh-pytorch-") as name:
        base = pathlib.Path(name)
        x, y = make_data(base / "data")
        good = [case for kernel in KERNELS for case in check_kernel(kernel, base, x, y)]
        good += [check_optimizer(name, base) for name in OPTIMIZERS]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) and len(good) == CASES else 1


if __name__ == "__main__":
    sys.exit(main())
