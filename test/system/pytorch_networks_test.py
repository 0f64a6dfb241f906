#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small networks for segmentation with halomesh and checks every step against PyTorch in
float64: losses, gradients of all parameters, and the weights after five steps.

Optional: counts its cases as skipped, and says why, where PyTorch, h5py or NumPy is missing.
Environment: HALOMESH (the program, beside whose build the tests are), MPIRUN (launcher with its
flags). Each run takes the case "steps asked for from outside" of mpi_tests: it starts from the
weights of a checkpoint made here, trains on one batch made here, and leaves a checkpoint of each
step, whose momentum gives back the gradients: v_k = m v_(k-1) + rate g_k.

Tolerances are those of torch_check.py. They hold where rounding leads over no kink: the seeds are
such that no value comes that near to zero under a ReLU, nor two values of a pooling window to one
another. Whether that is so is a case.
"""
import math
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

# (ranks, parts), replicas = ranks / parts. The lowest level has 3 planes, which 2 do not divide.
MESHES = ((1, "1x1x1"), (2, "2x1x1"), (2, "1x1x1"), (4, "2x2x1"), (4, "1x2x2"), (4, "2x1x1"),
          (3, "3x1x1"), (8, "2x2x2"))
# The same for images, which are not cut along h.
IMAGE_MESHES = ((1, "1x1x1"), (2, "2x1x1"), (2, "1x1x1"), (2, "1x1x2"), (4, "2x1x2"),
                (4, "2x1x1"), (3, "3x1x1"))
ASPECTS = ("loss of each step", "gradients of each step", "weights after all steps")
# Settings as in a checkpoint, and the seed of weights and batch.
NETWORKS = {
    "unet3d": ({"model": "unet3d", "input": "12x8x4x1", "filters": "2", "levels": "3",
                "most-filters": "6", "down": "stride", "batch-norm": "0", "classes": "3",
                "loss": "dice+ce"}, 4),
    "unet3d with pooling": ({"model": "unet3d", "input": "12x8x4x1", "filters": "2",
                             "levels": "3", "most-filters": "512", "down": "pool",
                             "batch-norm": "2", "classes": "3", "loss": "ce"}, 14),
    "deepcam": ({"model": "deepcam", "input": "48x1x16x2", "filters": "2", "middle-blocks": "1",
                 "batch-norm": "2"}, 26)}


def meshes_of(settings):
    return IMAGE_MESHES if settings["model"] == "deepcam" else MESHES


CASES = sum(1 + len(meshes_of(settings)) * len(ASPECTS) for settings, _ in NETWORKS.values())

try:
    import h5py
    import numpy
    import torch
    import torch.nn.functional as F

    from torch_check import ROUNDING, SIGMAS, excess, judge, sizes_of
    from torch_deepcam import deepcam, weighted_entropy
except ImportError as missing:
    print(f"skipped: {missing}; make test TORCH=1 installs it\n"
          f"0 passed, 0 failed, {CASES} skipped")
    sys.exit(0)

BATCH, STEPS, RATE, MOMENTUM = 2, 5, 2.0**-6, float(numpy.float32(0.9))
EPSILON = float(numpy.float32(1e-5))
# Biases of the norms of deepcam, of either sign: it has so many values under a ReLU that some would
# come near zero whatever the seed is.
AWAY = 2.0


# --- the peer
class Steps:
    """A forward pass that notes, for each layer with parameters, what its errors depend on."""
    EPSILON = EPSILON

    def __init__(self, weights):
        self.weights = {key: torch.from_numpy(value.astype("f8")).requires_grad_()
                        for key, value in weights.items() if "running" not in key}
        self.layers = []  # (names of parameters, function of input and parameters, input, output)
        self.kink = math.inf

    def need(self, key, shape):
        """Called before the parameter is used."""

    def apply(self, layer, names, function, x, terms):
        """Runs function(input, *parameters), whose sums have so many terms."""
        parameters = [self.weights[f"{layer}.{name}"] for name in names]
        y = function(x, *parameters)
        y.retain_grad()
        y.forward = self.forward_of(x) + math.sqrt(terms)
        self.layers.append(([f"{layer}.{name}" for name in names], function, x.detach(), y,
                            y.forward, terms))
        return y

    @staticmethod
    def forward_of(*tensors):
        """The sum of the roots of the terms of all layers on the way there, the longest one."""
        return max(getattr(x, "forward", 0.0) for x in tensors)

    def join(self, function, *tensors):
        """function(tensors), which rounds little."""
        y = function(tensors)
        y.forward = self.forward_of(*tensors)
        return y

    def relu(self, x):
        self.note_kink(x.detach().abs().min(), x)
        return self.join(lambda tensors: F.relu(*tensors), x)

    def pool(self, x):
        """The largest of each 2x2x2, which rounding may exchange where two come near."""
        windows = x.detach().unfold(2, 2, 2).unfold(3, 2, 2).unfold(4, 2, 2)
        best = windows.flatten(5).topk(2).values
        # Behind a ReLU windows of zeros pass nothing on, whichever of them is taken.
        gaps = (best[..., 0] - best[..., 1])[best[..., 0] > 0]
        self.note_kink(gaps.min(), x)
        return self.join(lambda tensors: F.max_pool3d(*tensors, 2), x)

    def note_kink(self, nearest, x):
        size = x.detach().pow(2).mean().sqrt()
        self.kink = min(self.kink, (nearest / size).item() / (SIGMAS * ROUNDING *
                                                               self.forward_of(x)))


def unet(weights, settings, x):
    """The logits, and the pass that they came by. Levels are numbered from 1, the finest."""
    passed = Steps(weights)
    pools, levels = settings["down"] == "pool", int(settings["levels"])
    over = (0, 2, 3, 4) if int(settings["batch-norm"]) > 0 else (2, 3, 4)

    def normalized(x, scale, shift):
        mean = x.mean(over, keepdim=True)
        variance = x.var(over, unbiased=False, keepdim=True)
        x = (x - mean) / (variance + EPSILON).sqrt()
        return x * scale[:, None, None, None] + shift[:, None, None, None]

    def block(stage, number, x, stride=1):
        x = passed.apply(f"{stage}_conv{number}", ("weight",),
                         lambda x, w: F.conv3d(x, w, stride=stride, padding=1), x, 27 * x.shape[1])
        x = passed.apply(f"{stage}_norm{number}", ("weight", "bias"), normalized, x, 4)
        return passed.relu(x)

    def larger(x, w, bias=None):
        return F.conv_transpose3d(x, w, bias, stride=2)

    across = []
    for level in range(1, levels + 1):
        if pools and level > 1:
            x = passed.pool(x)
        x = block(f"down{level}", 1, x, 1 if pools or level == 1 else 2)
        x = block(f"down{level}", 2, x)
        across.append(x)
    biases = ("weight",) if pools else ("weight", "bias")
    across.pop()
    for level in reversed(range(1, levels)):
        x = passed.apply(f"up{level}_larger", biases, larger, x, x.shape[1])
        x = passed.join(lambda both: torch.cat(both, 1), x, across.pop())
        x = block(f"up{level}", 2, block(f"up{level}", 1, x))
    return passed.apply("head", biases, F.conv3d, x, x.shape[1]), passed


def loss_of(logits, labels, kind):
    """The mean over samples, with an unweighted mean of the cross entropy over voxels."""
    entropy = F.cross_entropy(logits, labels)
    if kind == "ce":
        return entropy
    p = logits.softmax(1)
    g = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(p.dtype)
    both, sizes = (p * g).sum((2, 3, 4)), (p + g).sum((2, 3, 4))
    dice = 1 - ((2 * both + 1e-6) / (sizes + 1e-6))[:, 1:].mean()
    return dice if kind == "dice" else (dice + entropy) / 2


def reference_step(weights, settings, x, labels):
    """Loss, its allowance, gradients and their allowances by key, and how near a kink came in units
    of what fp32 may be off by there."""
    if settings["model"] == "deepcam":
        passed = Steps(weights)
        logits = deepcam(passed, settings, x)
        loss = weighted_entropy(logits, labels)
    else:
        logits, passed = unet(weights, settings, x)
        loss = loss_of(logits, labels, settings["loss"])
    loss.backward()
    last = passed.layers[-1][3]
    loss_allowance = SIGMAS * ROUNDING * (last.forward * (
        sizes_of(last.detach()) * last.grad.abs()).sum().item() + loss.item())
    gradients, allowances, backward = {}, {}, 0.0
    for names, function, source, output, forward, terms in reversed(passed.layers):
        parameters = [passed.weights[name] for name in names]
        last_sum = math.sqrt(output.numel() / output.shape[1])
        factor = SIGMAS * ROUNDING * (forward + backward + last_sum)
        if len(names) == 2 and "norm" in names[0]:
            # The normalized values are near 1, whatever their source is.
            over = (0, 2, 3, 4)
            shape = [1, -1, 1, 1, 1]
            scale, shift = (p.detach().reshape(shape) for p in parameters)
            sizes = [(sizes_of((output.detach() - shift) / scale) * sizes_of(output.grad)).sum(over),
                     sizes_of(output.grad).sum(over)]
        else:
            sizes = torch.autograd.grad(function(sizes_of(source), *parameters), parameters,
                                        sizes_of(output.grad))
        for name, parameter, size in zip(names, parameters, sizes):
            gradients[name] = parameter.grad.numpy().copy()
            allowances[name] = factor * size.detach().numpy()
        backward += math.sqrt(terms)
    return loss.item(), loss_allowance, gradients, allowances, passed.kink


# --- weights, data and files
class ShapeFinder(Steps):
    """A forward pass through a network whose parameters are not there yet."""

    def __init__(self):
        super().__init__({})
        self.shapes = {}

    def need(self, key, shape):
        self.shapes[key] = shape
        self.weights[key] = torch.zeros(shape, dtype=torch.double).requires_grad_()


def shapes_of(settings):
    """Extents of all parameters by key."""
    if settings["model"] == "deepcam":
        extents = [int(extent) for extent in settings["input"].split("x")]
        finder = ShapeFinder()
        deepcam(finder, settings, torch.ones(BATCH, extents[3], *extents[:3], dtype=torch.double))
        return finder.shapes
    filters, levels = int(settings["filters"]), int(settings["levels"])
    pools, most = settings["down"] == "pool", int(settings["most-filters"])
    of = lambda level: min(filters << level, most)
    shapes = {}

    def block(stage, number, channels, outputs):
        shapes[f"{stage}_conv{number}.weight"] = (outputs, channels, 3, 3, 3)
        kinds = ("weight", "bias", "running_mean", "running_variance")
        for kind in kinds[:4 if int(settings["batch-norm"]) > 0 else 2]:
            shapes[f"{stage}_norm{number}.{kind}"] = (outputs,)
        return outputs

    channels, across = int(settings["input"].split("x")[3]), []
    for level in range(levels):
        channels = block(f"down{level + 1}", 1, channels, of(level))
        channels = block(f"down{level + 1}", 2, channels, of(level + 1 if pools else level))
        across.append(channels)
    across.pop()
    for level in reversed(range(levels - 1)):
        stage, outputs = f"up{level + 1}", of(level + 2) if pools else of(level)
        shapes[f"{stage}_larger.weight"] = (channels, outputs, 2, 2, 2)
        if not pools:
            shapes[f"{stage}_larger.bias"] = (outputs,)
        both = outputs + across.pop()
        channels = of(level + 1) if pools else of(level)
        block(stage, 1, both, channels)
        block(stage, 2, channels, channels)
    shapes["head.weight"] = (int(settings["classes"]), channels, 1, 1, 1)
    if not pools:
        shapes["head.bias"] = (int(settings["classes"]),)
    return shapes


def make_start(settings, seed):
    """Weights, input (n,d,h,w,c) and labels (n,d,h,w)."""
    random = numpy.random.RandomState(seed)
    weights = {}
    for key, shape in shapes_of(settings).items():
        value = random.standard_normal(shape)
        if len(shape) > 1:
            value *= math.sqrt(2 / math.prod(shape[1:]))
        elif "norm" in key:
            value = 0.25 * value + key.endswith("weight")
            if settings["model"] == "deepcam" and key.endswith("bias"):
                value = numpy.where(value > -0.125, AWAY, -AWAY)
        else:
            value *= 0.25
        if "running" in key:
            value = numpy.full(shape, float(key.endswith("variance")))
        weights[key] = value.astype("f4")
    extents = [int(extent) for extent in settings["input"].split("x")]
    x = random.standard_normal((BATCH, *extents)).astype("f4")
    labels = random.randint(0, int(settings.get("classes", 3)), (BATCH, *extents[:3])).astype("i8")
    return weights, x, labels


def write_start(directory, settings, weights, x, labels, parts):
    directory.mkdir()
    with h5py.File(directory / "start.h5", "w") as file:
        for name, value in (("format", 1), ("step", 0), ("epoch", 0), ("samples_into_epoch", 0)):
            file.attrs[name] = numpy.int64(value)
        file.attrs["seed"] = numpy.uint64(0)
        file.attrs["written_by"] = numpy.bytes_("pytorch_networks_test")
        for group in ("model", "run"):
            file.create_group(group)
        for name, value in settings.items():
            file["model"].attrs[name] = numpy.bytes_(value)
        for key, value in weights.items():
            file[f"parameters/{key.replace('.', '/')}"] = value
    with h5py.File(directory / "batch.h5", "w") as file:
        file["x"], file["labels"] = x, labels
        file.attrs["parts"] = numpy.bytes_(parts)
        file.attrs["optimizer"] = numpy.bytes_("nesterov")
        file.attrs["steps"], file.attrs["rate"] = numpy.int64(STEPS), numpy.float64(RATE)


def take_steps(directory, ranks):
    """Losses, and by step weights and velocities by key."""
    program = pathlib.Path(os.environ.get("HALOMESH", "build/halomesh")).resolve()
    tests = program.parent / "tests" / "mpi_tests"
    done = subprocess.run(
        [*shlex.split(os.environ.get("MPIRUN", "mpirun")), "-n", str(ranks), str(tests),
         "--test-case=steps asked for from outside"],
        env={**os.environ, "HALOMESH_NETWORK_STEPS": str(directory)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"mpi_tests ended with {done.returncode}:\n{done.stdout}")
    losses = [float(line) for line in (directory / "losses").read_text().split()]
    steps = []
    for step in range(1, STEPS + 1):
        with h5py.File(directory / "checkpoints" / f"step-{step:09d}.h5", "r") as file:
            steps.append(tuple(
                {f"{layer}.{name}": value[()] for layer, group in file[tree].items()
                 for name, value in group.items()} for tree in ("parameters", "optimizer")))
    return losses, steps


# --- comparison
def nesterov_run(settings, weights, x, labels):
    """Weights after all steps of PyTorch's own optimizer, what fp32 may be off by, and how near a
    kink came. Errors go through the recurrence of the step as in pytorch_test.py."""
    weights, kink = {k: v.astype("f8") for k, v in weights.items()}, math.inf
    parameters = {k: torch.from_numpy(v).requires_grad_() for k, v in weights.items()
                  if "running" not in k}
    optimizer = torch.optim.SGD(parameters.values(), lr=RATE, momentum=MOMENTUM, nesterov=True)
    velocity_error, weight_error = dict.fromkeys(parameters, 0.0), dict.fromkeys(parameters, 0.0)
    for _ in range(STEPS):
        now = {key: p.detach().numpy() for key, p in parameters.items()}
        _, _, gradients, allowances, nearest = reference_step(now, settings, x, labels)
        kink = min(kink, nearest)
        for key, p in parameters.items():
            p.grad = torch.from_numpy(gradients[key])
        optimizer.step()
        for key, p in parameters.items():
            velocity_error[key] = MOMENTUM * velocity_error[key] + RATE * 2 * allowances[key]
            weight_error[key] = (weight_error[key] + RATE * 2 * allowances[key] +
                                 MOMENTUM * velocity_error[key] +
                                 2 * ROUNDING * p.detach().abs().numpy())
    return {key: p.detach().numpy() for key, p in parameters.items()}, weight_error, kink


def compare_run(directory, settings, start, x, labels, ranks):
    """Errors of losses and gradients at the run's own weights, and its last weights."""
    logged, steps = take_steps(directory, ranks)
    losses, gradients, weights = [], [], start
    velocities = {key: numpy.zeros_like(value) for key, value in start.items()}
    for loss_here, (new_weights, new_velocities) in zip(logged, steps):
        loss, loss_allowance, expected, allowances, _ = reference_step(weights, settings, x, labels)
        losses.append(excess(loss_here, loss, loss_allowance))
        for key, value in expected.items():
            kept = MOMENTUM * velocities[key].astype("f8")
            gradient = (new_velocities[key] - kept) / RATE
            # The products and the sum that made the velocity are rounded to fp32, too.
            rounded = 3 * ROUNDING * (numpy.abs(kept) + numpy.abs(new_velocities[key])) / RATE
            gradients.append(excess(gradient, value, allowances[key] + rounded))
        weights, velocities = new_weights, new_velocities
    return losses, gradients, weights


def as_peer_has(x, labels):
    return (torch.from_numpy(x.astype("f8")).permute(0, 4, 1, 2, 3),
            torch.from_numpy(labels.astype("i8")))


def check_network(name, base):
    """Whether each case of this network is good."""
    settings, seed = NETWORKS[name]
    start, x, labels = make_start(settings, seed)
    peer = as_peer_has(x, labels)
    final, allowances, kink = nesterov_run(settings, start, *peer)
    # Twice: fp32 also trains at weights that are a little off.
    good = [judge(f"{name}: rounding leads over no kink", [excess(2, 0, kink)])]
    for ranks, parts in meshes_of(settings):
        directory = base / f"{name.replace(' ', '-')}-{ranks}-{parts}"
        write_start(directory, settings, start, x, labels, parts)
        losses, gradients, weights = compare_run(directory, settings, start, *peer, ranks)
        last = [excess(weights[key], final[key], allowances[key]) for key in final]
        for aspect, rows in zip(ASPECTS, (losses, gradients, last)):
            good.append(judge(f"{name}, {ranks} ranks, parts {parts}: {aspect}", rows))
    return good


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="halomesh-pytorch-") as name:
        good = [case for network in NETWORKS for case in check_network(network, pathlib.Path(name))]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return 0 if all(good) and len(good) == CASES else 1


if __name__ == "__main__":
    sys.exit(main())
