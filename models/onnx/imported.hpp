// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX files: what is read of a file, and what of it becomes the program's own
// network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/nn/losses/heads_loss.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// How a file is read.
struct ImportSettings {
  Shape input{};  ///< extents of a sample; 0: those in the file
  DataType precision = DataType::kFloat32;
  std::int64_t batch_norm = 1;  ///< samples that a batch norm takes together
  double dropout = -1;          ///< the probability of all dropouts; below 0: those in the file
  /// Drops a softmax or sigmoid of voxels at the end, which the loss applies itself.
  bool ends_in_scores = false;
  /// Drops a softmax, or a sigmoid, of the outputs of a sample likewise.
  bool ends_in_softmax = false, ends_in_sigmoid = false;
  std::string output{};  ///< name of the output that is computed; empty: the first
  /// Weights of the losses of all outputs, which are then computed together: see HeadsLoss. Empty:
  /// those of deep supervision, halved per level and 0 for the lowest. Absent: one output.
  std::optional<std::vector<double>> weights{};
};

/// A parameter of a layer, and where the file has it: element i of the layer's parameter is element
/// offset + sum over the axes a of i_a * strides[a] of the tensor.
struct ImportedParameter {
  std::string layer;
  std::size_t number = 0;  ///< among the layer's parameters
  std::string tensor;      ///< name in the file; empty: the file has none
  std::vector<std::int64_t> dims{}, strides{};
  std::int64_t offset = 0;
  std::string reader{};   ///< the node that reads it, by its first output
  std::size_t input = 0;  ///< at which of its inputs
};

/// A layer and the nodes of the file that it computes.
struct ImportedLayer {
  std::string name, operators;
  Shape shape;
  std::int64_t parameters = 0;
};

struct ImportedNetwork {
  Model model;
  std::vector<ImportedLayer> layers;
  std::vector<ImportedParameter> parameters;
  std::vector<std::string> notes;     ///< on losses of the exporter
  std::vector<std::string> outputs;   ///< names of all outputs in the file
  std::vector<std::string> computed;  ///< the computed ones
  std::vector<OutputHead> heads;      ///< their places in the network's output
  std::string origin;                 ///< its opset and the program that wrote it
};

struct NetworkSettings;

/// The parameters of the network that these settings describe, and the names of its outputs.
std::vector<ImportedParameter> imported_parameters(const NetworkSettings& settings);
std::vector<std::string> imported_outputs(const NetworkSettings& settings);

/// Reads a file, or an embedded graph (see embedded_graph()). Throws UsageError naming every node
/// that is not supported, or Error for a damaged file.
ImportedNetwork import_onnx(const std::string& source, const ImportSettings& settings);

/// As above for the extents of the file, without a softmax or sigmoid at the end.
ImportedNetwork import_onnx(const std::string& source);

/// A table of the layers that were understood, and notes.
std::string describe_onnx(const std::string& source);

/// The graph of a file as one word of text, without the values of parameters.
std::string embedded_graph(const std::string& source);

/// The values of each parameter that the file has, in the order of `parameters`.
std::vector<std::vector<float>> onnx_values(const std::string& source,
                                            const std::vector<ImportedParameter>& parameters);

/// The file's bytes with other values of its parameters, each under its name, for samples of the
/// shape `input`.
std::string onnx_with_values(const std::string& source, const Shape& input,
                             const std::vector<ImportedParameter>& parameters,
                             const std::vector<std::vector<float>>& values);

}  // namespace halomesh
