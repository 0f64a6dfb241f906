# SPDX-License-Identifier: Apache-2.0
"""Random graphs of the operators that networks from ONNX files may have, with the values that
onnxruntime gives them.

A graph grows node by node. Each node is run by itself as soon as it is drawn, which gives the
extents for the next one, and one that onnxruntime refuses is left out. The same seed gives the same graph.
"""
import random

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSETS = (7, 9, 10, 11, 13, 14, 17, 18, 19, 20, 21, 22, 23)
MOST_CHANNELS, MOST_VALUES = 8, 30000
onnxruntime.set_default_logger_severity(4)


def model_of(nodes, initializers, inputs, outputs, opset):
    def described(values):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in values]
    graph = helper.make_graph(nodes, "graph", described(inputs), described(outputs), initializers)
    # An old intermediate representation would ask for initializers among the inputs.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def evaluate(model, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def normalized(values, axes, scale, offset, epsilon=1e-5):
    """Over these axes, in double precision; scale and offset are shaped like `values`."""
    values = values.astype("f8")
    centred = values - values.mean(axes, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(axes, keepdims=True) + epsilon) * scale + offset


def group_normalized(values, scale, offset, groups):
    shape = (1, -1) + (1,) * (values.ndim - 2)
    grouped = normalized(values.reshape(len(values), groups, -1), 2, 1, 0).reshape(values.shape)
    return grouped * scale.reshape(shape) + offset.reshape(shape)


# onnxruntime sums these in single precision, which loses more than is compared here.
IN_DOUBLE = {
    "InstanceNormalization": lambda x, scale, offset: group_normalized(x, scale, offset, x.shape[1]),
    "GroupNormalization": lambda x, scale, offset, num_groups: group_normalized(x, scale, offset, num_groups),
    "LayerNormalization": lambda x, scale, offset=0.0, axis=-1: normalized(x, axis, scale, offset),
    "GlobalAveragePool": lambda x: x.mean((2, 3, 4), keepdims=True, dtype="f8"),
    "ReduceMean": lambda x, *_, keepdims, **__: x.mean((2, 3, 4), keepdims=bool(keepdims), dtype="f8")}


class Refused(Exception):
    """A node that cannot be computed, or whose values would not be worth comparing."""


class Growing:
    """One graph: nodes, initializers, and the value of each name."""

    def __init__(self, seed, x, opset):
        self.random, self.opset = random.Random(seed), opset
        self.numbers = numpy.random.RandomState(seed)
        self.prefix, self.count = f"s{seed}_", 0
        self.nodes, self.constants, self.values = [], {}, {"x": x}
        self.last = "x"

    # --- nodes
    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def constant(self, value):
        name = self.name()
        self.constants[name] = numpy.asarray(value)
        return name

    def weights(self, *shape, mean=0.0):
        fan_in = max(int(numpy.prod(shape[1:])), 1)
        return self.constant((mean + self.numbers.standard_normal(shape) / fan_in**0.5).astype("f4"))

    def add(self, operator, *inputs, outputs=1, **attributes):
        """Appends a node and returns the names of its outputs."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(operator, inputs, names, **attributes)
        used = [name for name in inputs if name]
        feeds = {name: self.values[name] for name in used if name in self.values}
        model = model_of([node], [numpy_helper.from_array(self.constants[name], name)
                                  for name in used if name in self.constants],
                         [(name, value.shape) for name, value in feeds.items()],
                         [(name, None) for name in names], self.opset)
        try:
            results = evaluate(model, feeds)
        except Exception as error:
            raise Refused(operator) from error
        if operator in IN_DOUBLE:
            arrays = [feeds.get(name, self.constants.get(name)) for name in used]
            results = [IN_DOUBLE[operator](*arrays, **attributes).astype("f4")]
        for name, value in zip(names, results):
            if not value.size or value.size > MOST_VALUES or not numpy.isfinite(value).all() or \
                    numpy.abs(value).max() > 1e4:
                raise Refused(operator)
            self.values[name] = value
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def shape(self, name=None):
        return self.values[name or self.last].shape

    def some(self, low, high):
        return [self.random.randint(low, high) for _ in range(3)]

    def maybe(self, share=0.5):
        return self.random.random() < share

    # --- operators, each from the last value to the next one
    def window(self, largest=4, dilated=True, pads=True):
        kernel, dilations = self.some(1, largest), self.some(1, 2) if dilated else [1, 1, 1]
        attributes = {"kernel_shape": kernel, "strides": self.some(1, 3) if self.maybe() else [1, 1, 1]}
        if dilated and self.maybe():
            attributes["dilations"] = dilations
        if pads and self.maybe(0.7):
            # No window may lie in the padding alone.
            attributes["pads"] = [self.random.randint(0, k - 1) for k in kernel * 2]
        elif pads and self.maybe(0.4) and "dilations" not in attributes:
            attributes["auto_pad"] = self.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        return attributes

    def conv(self):
        channels = self.shape()[1]
        groups = self.random.choice([g for g in range(1, channels + 1) if channels % g == 0])
        filters = groups * self.random.randint(1, max(MOST_CHANNELS // groups, 1))
        if self.maybe(0.2):
            groups = filters = channels
        window = self.window()
        weight = self.weights(filters, channels // groups, *window["kernel_shape"])
        bias = [self.weights(filters)] if self.maybe() else []
        return self.add("Conv", self.last, weight, *bias, group=groups, **window)

    def conv_transpose(self):
        channels = self.shape()[1]
        depthwise = self.maybe(0.3)
        groups = channels if depthwise else 1
        filters = channels if depthwise else self.random.randint(1, MOST_CHANNELS)
        window = self.window(3)
        window.pop("auto_pad", None)
        reach = [max(s, d) for s, d in zip(window["strides"], window.get("dilations", [1, 1, 1]))]
        if self.maybe(0.3):
            window["output_padding"] = [self.random.randint(0, r - 1) for r in reach]
        elif self.maybe(0.2):
            window.pop("pads", None)
            window["output_shape"] = [
                s * (e - 1) + (k - 1) * d + 1 - self.random.randint(0, k - 1) for s, e, k, d in
                zip(window["strides"], self.shape()[2:], window["kernel_shape"],
                    window.get("dilations", [1, 1, 1]))]
            window["auto_pad"] = self.random.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER"])
        weight = self.weights(channels, filters // groups, *window["kernel_shape"])
        bias = [self.weights(filters)] if self.maybe() else []
        return self.add("ConvTranspose", self.last, weight, *bias, group=groups, **window)

    def pool(self):
        average = self.maybe()
        window = self.window(4, self.opset >= (19 if average else 10))
        if self.opset >= 10 and "auto_pad" not in window:
            window["ceil_mode"] = self.random.randint(0, 1)
        if average:
            window["count_include_pad"] = self.random.randint(0, 1)
        return self.add("AveragePool" if average else "MaxPool", self.last, **window)

    def need_voxels(self):
        if numpy.prod(self.shape()[2:]) < 12:
            raise Refused("norm")

    def batch_norm(self):
        c = self.shape()[1]
        variance = self.constant((0.5 + self.numbers.random_sample(c)).astype("f4"))
        return self.add("BatchNormalization", self.last, self.weights(c, mean=1), self.weights(c),
                        self.weights(c), variance)

    def instance_norm(self):
        self.need_voxels()
        c = self.shape()[1]
        return self.add("InstanceNormalization", self.last, self.weights(c, mean=1), self.weights(c))

    def group_norm(self):
        self.need_voxels()
        c = self.shape()[1]
        groups = self.random.choice([g for g in range(1, c + 1) if c % g == 0])
        if self.opset >= 21:
            return self.add("GroupNormalization", self.last, self.weights(c, mean=1),
                            self.weights(c), num_groups=groups)
        x = self.add("Reshape", self.last, self.constant(numpy.array([0, groups, -1], "i8")))
        x = self.add("InstanceNormalization", x, self.constant(numpy.ones(groups, "f4")),
                     self.constant(numpy.zeros(groups, "f4")))
        x = self.add("Reshape", x, self.constant(numpy.array(self.shape(), "i8")))
        x = self.add("Mul", x, self.weights(c, 1, 1, 1, mean=1))
        return self.add("Add", x, self.weights(c, 1, 1, 1))

    def channels_last(self):
        c = self.shape()[1]
        x = self.add("Transpose", self.last, perm=[0, 2, 3, 4, 1])
        if c > 2 and self.opset >= 17 and self.maybe():
            bias = [self.weights(c)] if self.maybe() else []
            x = self.add("LayerNormalization", x, self.weights(c, mean=1), *bias, axis=-1)
        if self.maybe():
            filters = self.random.randint(1, MOST_CHANNELS)
            x = self.add("MatMul", x, self.weights(c, filters))
            if self.maybe():
                x = self.add("Add", x, self.weights(filters))
        if self.maybe() or self.nodes[-1].op_type == "Transpose":
            x = self.add("Relu", x)
        return self.add("Transpose", x, perm=[0, 4, 1, 2, 3])

    def unit_channels(self):
        if self.shape()[1] < 2:
            raise Refused("norm of one channel")
        if self.maybe():
            return self.add("LpNormalization", self.last, axis=1, p=2)
        axes = {"axes": [1]} if self.opset < 18 else {}
        size = self.add("ReduceL2", self.last, *([] if axes else [self.constant(numpy.array([1], "i8"))]),
                        keepdims=1, **axes)
        if self.opset < 11:
            size = self.add("Clip", size, min=1e-12)
        else:
            size = self.add("Clip", size, self.constant(numpy.float32(1e-12)))
        return self.add("Div", self.last, size)

    def pointwise(self):
        plain = ["Relu", "Tanh", "Sigmoid", "Softplus", "Abs", "Neg", "Selu"]
        plain += (["Erf"] if self.opset >= 9 else []) + (["Celu"] if self.opset >= 12 else [])
        plain += (["HardSwish"] if self.opset >= 14 else []) + (["Mish"] if self.opset >= 18 else [])
        operator = self.random.choice(plain + [
            "LeakyRelu", "Elu", "HardSigmoid", "PRelu", "Clip", "Gelu", "Positive", "Pow", "Silu"])
        x, alpha = self.last, round(self.random.uniform(0.05, 1.5), 3)
        if operator in plain:
            return self.add(operator, x)
        if operator in ("LeakyRelu", "Elu"):
            return self.add(operator, x, alpha=alpha)
        if operator == "HardSigmoid":
            return self.add(operator, x, alpha=alpha / 2, beta=0.4)
        if operator == "PRelu":
            slopes = self.random.choice([(1,), (self.shape()[1], 1, 1, 1)])
            return self.add(operator, x, self.constant(
                self.numbers.uniform(-0.5, 1, slopes).astype("f4")))
        if operator == "Clip":
            if self.opset < 11:
                return self.add(operator, x, min=-alpha, max=0.7)
            bounds = [self.constant(numpy.float32(v)) for v in (-alpha, 0.7)]
            return self.add(operator, x, *self.random.choice(
                [bounds, bounds[:1], ["", bounds[1]]]))
        if operator == "Gelu":
            if self.opset >= 20:
                return self.add("Gelu", x, approximate=self.random.choice(["none", "tanh"]))
            y = self.add("Div", x, self.constant(numpy.float32(1.4142135)))
            y = self.add("Add", self.add("Erf", y), self.constant(numpy.float32(1)))
            return self.add("Mul", self.add("Mul", x, y), self.constant(numpy.float32(0.5)))
        if operator == "Silu":
            return self.add("Mul", x, self.add("Sigmoid", x))
        if operator == "Pow":
            return self.add("Pow", self.add("Tanh", x),
                            self.constant(numpy.float32(self.random.choice([2, 3]))))
        positive = self.add("Add", self.add("Abs", x), self.constant(numpy.float32(alpha)))
        choice = self.random.choice(["Log", "Sqrt", "Reciprocal", "Pow", "Exp"])
        if choice == "Pow":
            return self.add("Pow", positive, self.constant(numpy.float32(
                self.random.choice([0.5, 1.7, -0.5]))))
        return self.add(choice, self.add("Tanh", x) if choice == "Exp" else positive)

    def number(self):
        """A constant on either side."""
        operator = self.random.choice(["Add", "Sub", "Mul", "Div"])
        c = self.shape()[1]
        value = self.constant(self.numbers.uniform(0.5, 2, self.random.choice(
            [(), (1,), (1, 1, 1, 1, 1)] + ([(c, 1, 1, 1), (1, c, 1, 1, 1)]
                                           if operator in ("Add", "Mul") else []))).astype("f4"))
        sides = [self.last, value]
        if self.maybe():
            sides.reverse()
        if operator == "Div" and sides[1] == self.last:
            x = self.add("Add", self.add("Abs", self.last), self.constant(numpy.float32(0.5)))
            sides[1] = x
        return self.add(operator, *sides)

    def convolved(self, filters, name=None):
        """A 3x3x3 convolution that keeps the extents."""
        weight = self.weights(filters, self.shape(name)[1], 3, 3, 3)
        return self.add("Conv", name or self.last, weight, pads=[1] * 6, kernel_shape=[3, 3, 3])

    def two(self):
        """Two tensors, of which either may have axes of extent 1."""
        x, c = self.last, self.shape()[1]
        kind = self.random.choice(["equal", "voxel", "channel"])
        if kind == "equal":
            y = self.convolved(c)
        elif kind == "channel":
            y = self.convolved(1)
        else:
            y = self.add("GlobalAveragePool", x)
            y = self.add("Conv", y, self.weights(c, c, 1, 1, 1), self.weights(c))
            y = self.add("Sigmoid", y)
        operator = self.random.choice(["Add", "Sub", "Mul", "Max", "Min", "Div"])
        if operator == "Div":
            y = self.add("Add", self.add("Abs", y), self.constant(numpy.float32(0.5)))
        elif self.maybe():
            x, y = y, x
        return self.add(operator, x, y)

    def sizes_input(self, values):
        return self.constant(numpy.array(values, "i8"))

    def split(self):
        c = self.shape()[1]
        if c < 2:
            raise Refused("Split")
        first = self.random.randint(1, c - 1)
        if self.opset < 13:
            parts = self.add("Split", self.last, outputs=2, axis=1, split=[first, c - first])
        else:
            parts = self.add("Split", self.last, self.sizes_input([first, c - first]), outputs=2,
                             axis=self.random.choice([1, -4]))
        parts[0] = self.add("Sigmoid", parts[0])
        self.random.shuffle(parts)
        if first * 2 == c and self.maybe():
            return self.add("Mul", *parts)
        return self.add("Concat", *parts, axis=1)

    def concat(self):
        if self.shape()[1] * 2 > MOST_CHANNELS:
            raise Refused("Concat")
        if self.maybe(0.3) and self.opset >= 7:
            return self.add("Tile", self.last, self.sizes_input([1, 2, 1, 1, 1]))
        if self.maybe(0.3):
            return self.add("Concat", self.convolved(self.shape()[1]), self.last,
                            axis=self.random.choice([2, 3, -1]))
        return self.add("Concat", self.convolved(self.random.randint(1, 4)), self.last, axis=1)

    def pad(self):
        mode = self.random.choice(["constant", "edge", "reflect"] + ["wrap"] * (self.opset >= 19))
        extents = self.shape()[2:]
        pads = [self.random.randint(-1 if mode == "constant" else 0, 3) for _ in range(6)]
        pads = [min(p, e - 1) for p, e in zip(pads, extents * 2)]
        whole = [0, 0, *pads[:3], 0, 0, *pads[3:]]
        if self.opset < 11:
            return self.add("Pad", self.last, pads=whole, mode=mode,
                            **({"value": 0.75} if mode == "constant" else {}))
        value = self.constant(numpy.float32(0.75 if self.maybe() else 0))
        inputs = [value] if mode == "constant" else [""]
        if self.opset >= 18 and self.maybe():
            return self.add("Pad", self.last, self.sizes_input(pads), *inputs,
                            self.sizes_input([2, 3, 4] if self.maybe() else [-3, -2, -1]), mode=mode)
        return self.add("Pad", self.last, self.sizes_input(whole), *(inputs if inputs[0] else []),
                        mode=mode)

    def slice(self):
        axes = self.random.sample([1, 2, 3, 4], self.random.randint(1, 3))
        starts, ends = [], []
        for axis in axes:
            extent = self.shape()[axis]
            low = self.random.randint(0, extent // 3)
            high = self.random.randint(max(low + 1, extent - 2), extent)
            starts.append(low - extent if self.maybe(0.3) else low)
            ends.append(2**31 - 1 if high == extent else high)
        if self.opset < 10:
            return self.add("Slice", self.last, starts=starts, ends=ends, axes=axes)
        return self.add("Slice", self.last, *map(self.sizes_input, (starts, ends, axes)))

    def resize(self):
        extents = self.shape()[2:]
        mode = self.random.choice(["nearest", "linear"])
        factors = [self.random.choice([0.5, 1, 1.5, 2, 3]) for _ in extents]
        scales = numpy.array([1, 1, *factors], "f4")
        if self.opset < 9:
            return self.add("Upsample", self.last, mode=mode, scales=[1, 1, 2, self.random.choice([1, 2]), 2])
        if self.opset == 9:
            return self.add("Upsample", self.last, self.constant(numpy.maximum(scales, 1)), mode=mode)
        if self.opset == 10:
            return self.add("Resize", self.last, self.constant(scales), mode=mode)
        attributes = {"mode": mode, "coordinate_transformation_mode": self.random.choice(
            ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])}
        if mode == "nearest":
            attributes["nearest_mode"] = self.random.choice(
                ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
        roi = "" if self.opset >= 13 else self.constant(numpy.zeros(0, "f4"))
        if self.maybe():
            return self.add("Resize", self.last, roi, self.constant(scales), **attributes)
        sizes = [max(1, int(e * f) + self.random.randint(-1, 1)) for e, f in zip(extents, factors)]
        no_scales = "" if self.opset >= 13 else self.constant(numpy.zeros(0, "f4"))
        if self.opset >= 18 and self.maybe():
            return self.add("Resize", self.last, "", "", self.sizes_input(sizes), axes=[2, 3, 4],
                            **attributes)
        return self.add("Resize", self.last, roi, no_scales,
                        self.sizes_input([*self.shape()[:2], *sizes]), **attributes)

    def head(self):
        n, c = self.shape()[:2]
        if self.maybe():
            x, features = self.last, int(numpy.prod(self.shape()[1:]))
            if features > 3000:
                raise Refused("Gemm")
            x = self.add("Flatten", x)
        else:
            axes = {"axes": [2, 3, 4]} if self.opset < 18 else {}
            more = [] if axes else [self.sizes_input([-3, -2, -1])]
            x, features = self.add("ReduceMean", self.last, *more, keepdims=0, **axes), c
        out = self.random.randint(1, 6)
        if self.maybe(0.3):
            x = self.add("MatMul", x, self.constant(
                (self.numbers.standard_normal((features, out)) / features**0.5).astype("f4")))
        else:
            x = self.add("Gemm", x, self.weights(out, features), self.weights(out), transB=1)
        return x

    def grow(self, length):
        kinds = [self.conv] * 4 + [self.conv_transpose] * 2 + [self.pool] * 3 + [
            self.batch_norm, self.instance_norm, self.group_norm, self.channels_last,
            self.unit_channels, self.pointwise, self.pointwise, self.pointwise, self.number,
            self.two, self.two, self.split, self.concat, self.pad, self.pad, self.slice,
            self.resize, self.resize]
        while length > 0:
            nodes, values = len(self.nodes), dict(self.values)
            try:
                name = self.random.choice(kinds)()
                if min(self.shape(name)[2:]) < 2 or self.shape(name)[1] > 2 * MOST_CHANNELS or \
                        numpy.array_equal(self.values[name], self.values[self.last]):
                    raise Refused("extents")
                self.last, length = name, length - 1
            except Refused:
                del self.nodes[nodes:]
                self.values = values
        if self.maybe(0.15):
            nodes = len(self.nodes)
            try:
                self.last = self.head()
            except Refused:
                del self.nodes[nodes:]
        return self

    def described(self):
        """Each node in words."""
        def attribute(a):
            value = helper.get_attribute_value(a)
            return f"{a.name}={value.decode() if isinstance(value, bytes) else value}"
        return [f"{n.op_type}{list(self.shape(n.input[0])) if n.input[0] in self.values else ''}"
                f"({', '.join(map(attribute, n.attribute))})" +
                "".join(f" {self.constants[i].ravel().tolist()}" for i in n.input
                        if i in self.constants and self.constants[i].size < 11 and
                        self.constants[i].dtype.kind == "i")
                for n in self.nodes]


def graphs(seeds):
    """One model with a graph for each seed, all of the same input; its input and the graphs."""
    rng = random.Random(seeds[0])
    opset = rng.choice(OPSETS)
    shape = [rng.randint(1, 2), rng.randint(1, 4)] + [rng.randint(7, 12) for _ in range(3)]
    x = numpy.random.RandomState(seeds[0]).standard_normal(shape).astype("f4")
    grown = [Growing(seed, x, opset).grow(rng.randint(1, 5)) for seed in seeds]
    used = {name for g in grown for node in g.nodes for name in node.input}
    model = model_of([node for g in grown for node in g.nodes],
                     [numpy_helper.from_array(value, name) for g in grown
                      for name, value in g.constants.items() if name in used],
                     [("x", shape)], [(g.last, g.shape()) for g in grown], opset)
    onnx.checker.check_model(model)
    return model, x, grown
