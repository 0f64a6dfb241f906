# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend's own cases as networks of one 3-D tensor: a model, its input and its output.

Most of these cases have one or two axes of space, and pass all tensors to the graph. Here the first
tensor becomes the input of the network, all others are constants of the file, and axes of extent 1
make up five. Of pointwise operators with several tensors, the input is their concatenation.
"""
import pathlib
import re
import warnings

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

POINTWISE = ("Relu LeakyRelu PRelu Elu Celu Selu Gelu Swish Mish Softplus Sigmoid HardSigmoid HardSwish Tanh Erf Clip "
             "Exp Log Sqrt Abs Neg Reciprocal Pow Add Sub Mul Div Max Min Identity Cast Dropout").split()
WINDOWS = ("Conv ConvTranspose MaxPool AveragePool GlobalAveragePool BatchNormalization "
           "InstanceNormalization GroupNormalization Resize Upsample").split()
MOST_EXTENT = 65536
ROWS = "LayerNormalization RMSNormalization LpNormalization".split()


class LeftOut(Exception):
    """Why a case is no network of one 3-D tensor."""


class Case:
    """A model of one node with the values of all of its inputs, and its first output."""

    def __init__(self, model, inputs, expected):
        self.model, self.expected = model, expected
        self.values = {i.name: value for i, value in zip(model.graph.input, inputs)}
        self.values.update({t.name: numpy_helper.to_array(t) for t in model.graph.initializer})
        self.nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]

    def axes(self):
        return getattr(self.values.get(next(iter(self.model.graph.node[0].input), "")), "ndim", 0)

    def lift(self):
        """Model and input of the network; its output has as many elements as the case's."""
        if len(self.nodes) != 1:
            raise LeftOut("several nodes: the body of a function")
        node = self.nodes[0]
        self.node, operator = node, node.op_type
        names = [name for name in node.input if name]
        if not names:
            raise LeftOut("no tensor is read")
        x, before = self.values[names[0]], []
        if not isinstance(x, numpy.ndarray) or x.dtype != numpy.float32 or \
                getattr(self.expected, "dtype", None) != numpy.float32:
            raise LeftOut("not float32")
        if x.ndim > 5 or x.ndim == 5 and operator in ROWS:
            raise LeftOut(f"{x.ndim} axes of another meaning")
        if sum(bool(name) for name in node.output) > 1 and operator != "Split":
            raise LeftOut("more than the first output is asked for")
        missing = 5 - x.ndim
        if operator in WINDOWS:
            x = self.with_axes(x, missing)
        elif operator in ROWS:
            axis = [a.i for a in node.attribute if a.name == "axis"] or [-1]
            if axis[0] not in (-1, x.ndim - 1):
                raise LeftOut("a norm over other axes than the last")
            del node.attribute[:]
            node.attribute.extend(a for a in self.model.graph.node[0].attribute if a.name != "axis")
            node.attribute.append(helper.make_attribute("axis", -1))
            x = numpy.moveaxis(x.reshape((1,) * missing + x.shape), -1, 1)
            before = [helper.make_node("Transpose", ["x"], ["last"], perm=[0, 2, 3, 4, 1])]
            node.input[0] = "last"
            self.expected = numpy.moveaxis(
                self.expected.reshape((1,) * missing + self.expected.shape), -1, 1)
            before.append(node)
            node = helper.make_node("Transpose", [node.output[0]], ["lifted"],
                                    perm=[0, 4, 1, 2, 3])
        elif operator in ("Pad", "Slice", "Split"):
            x = x.reshape((1,) * missing + x.shape)
            self.shift(operator, missing)
        elif operator == "Gemm":
            x = x.reshape(*x.shape, 1, 1, 1)
            before = [helper.make_node("Flatten", ["x"], ["flat"])]
            node.input[0] = "flat"
        elif operator in POINTWISE:
            others = [self.values[name] for name in names[1:]]
            joins = operator in ("Add", "Sub", "Mul", "Div", "Max", "Min") and all(
                getattr(other, "shape", None) == x.shape for other in others) and others
            x = x.reshape((1,) * missing + x.shape)
            if joins:
                before = [helper.make_node("Split", ["x"], [f"x{i}" for i in range(len(names))], axis=1)]
                for i in range(len(names)):
                    node.input[i] = f"x{i}"
                x = numpy.concatenate([x] + [o.reshape(x.shape) for o in others], 1)
            # An operator that is left out, as a sigmoid before a loss may be, leaves a network behind.
            before.insert(0, helper.make_node("Neg", ["negative"], ["x"]))
            x = -x
        elif x.ndim != 5:
            raise LeftOut("moves, reduces or joins axes other than those of N,C,D,H,W")
        if node.input[0] in self.values:
            node.input[0] = "x"
        if x.ndim != 5 or not x.size or max(x.shape) > MOST_EXTENT:
            raise LeftOut("no tensor of five axes, or one of absurd extents")
        return self.build([*before, node], x), numpy.ascontiguousarray(x)

    @staticmethod
    def with_axes(value, missing):
        return value.reshape(value.shape[:2] + (1,) * missing + value.shape[2:])

    def with_attributes(self, change):
        for a in self.node.attribute:
            value = change(a.name, helper.get_attribute_value(a))
            a.CopyFrom(helper.make_attribute(a.name, value, attr_type=a.type))

    def shift(self, operator, missing):
        """Axes of samples, where there were none, before all axes of these nodes."""
        def moved(name, value):
            if name == "axis" and value >= 0:
                return value + missing
            if name == "axes":
                return [a + missing if a >= 0 else a for a in value]
            if name == "pads":
                half = len(value) // 2
                return [0] * missing + list(value[:half]) + [0] * missing + list(value[half:])
            return value
        self.with_attributes(moved)
        inputs = self.node.input
        if operator == "Split" and not any(a.name == "axis" for a in self.node.attribute):
            self.node.attribute.append(helper.make_attribute("axis", missing))
        at = 3
        if len(inputs) > at and inputs[at]:
            axes = self.values[inputs[at]]
            self.values[inputs[at]] = numpy.where(axes >= 0, axes + missing, axes)
        elif operator == "Pad" and len(inputs) > 1:
            self.values[inputs[1]] = numpy.array(moved("pads", self.values[inputs[1]].tolist()))
        elif operator == "Slice" and len(inputs) > 1:
            count = len(self.values[inputs[1]])
            self.node.input.append("axes")
            self.values["axes"] = numpy.arange(missing, missing + count)

    def widen(self, missing):
        """Windows of extent 1 along the axes that are new."""
        def wider(name, value):
            if name in ("kernel_shape", "strides", "dilations", "output_shape"):
                return [1] * missing + list(value)
            if name == "output_padding":
                return [0] * missing + list(value)
            if name == "pads":
                half = len(value) // 2
                return [0] * missing + list(value[:half]) + [0] * missing + list(value[half:])
            if name == "axes":
                return [a + missing if a >= 2 else a for a in value]
            if name == "scales":
                return list(value[:2]) + [1.0] * missing + list(value[2:])
            return value
        self.with_attributes(wider)
        operator, inputs = self.node.op_type, self.node.input
        if operator in ("Conv", "ConvTranspose"):
            self.values[inputs[1]] = self.with_axes(self.values[inputs[1]], missing)
        if operator in ("Resize", "Upsample") and not any(a.name == "axes" for a in self.node.attribute):
            for name in inputs[1:]:
                values = self.values.get(name)
                if values is not None and values.size > 2 and values.size == 5 - missing:
                    self.values[name] = numpy.concatenate(
                        [values[:2], numpy.ones(missing, values.dtype), values[2:]])

    def build(self, nodes, x):
        missing = 5 - self.axes()
        if self.node.op_type in WINDOWS and missing:
            self.widen(missing)
        used = {name for node in nodes for name in node.input}
        constants = [numpy_helper.from_array(numpy.asarray(value), name)
                     for name, value in self.values.items() if name in used and name != "x"]
        output = nodes[-1].output[0]
        graph = helper.make_graph(
            nodes, "graph", [helper.make_tensor_value_info(
                "negative" if nodes[0].op_type == "Neg" and len(nodes) > 1 else "x",
                TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], constants)
        opset = max(7, next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def backend_cases():
    """By name: each case of one operator, as far as the package has it."""
    cases = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        for case in collect_testcases(None):
            if case.data_sets:
                cases[case.name] = Case(case.model, case.data_sets[0][0], case.data_sets[0][1][0])
    folder = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-converted"
    for directory in sorted(folder.glob("test_*")):
        model = onnx.load(directory / "model.onnx")
        def values(kind):
            files = sorted((directory / "test_data_set_0").glob(f"{kind}_*.pb"),
                           key=lambda f: int(re.sub(r"\D", "", f.stem)))
            return [numpy_helper.to_array(onnx.load_tensor(f)) for f in files]
        constants = {t.name for t in model.graph.initializer}
        case = Case(model, [], values("output")[0])
        dynamic = [i.name for i in model.graph.input if i.name not in constants]
        case.values.update(zip(dynamic, values("input")))
        cases["pytorch " + directory.name] = case
    return cases
