// SPDX-License-Identifier: Apache-2.0
// The epochs from which on the first layers of a network are frozen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/model_geometry.hpp"

namespace halomesh {

/// After `epoch` epochs the first `layers` layers with parameters are no longer trained: backward
/// ends above them, and their gradients are neither computed nor summed. This is the manual method
/// of Gradient-Skip in github.com/FujitsuLaboratories/CAC, where users give layers and iterations;
/// the DeepCAM runs in github.com/mlcommons/hpc_results_v0.7
/// (Fujitsu/benchmarks/deepcam/implementations/ implementation_abci_fj/fused_lamb.py) find the time
/// by the norms of weights, and lower the momentum over some steps before.
struct GradientSkip {
  std::int64_t layers = 0, epoch = 0;
};

/// Parses "2@8,4@16", or "" for none. Throws UsageError unless layers and epochs increase from 1
/// on.
std::vector<GradientSkip> parse_gradient_skips(const std::string& text);
std::string to_text(const std::vector<GradientSkip>& skips);

/// The number of layers that are skipped after `epoch` epochs.
std::int64_t skipped_layers(const std::vector<GradientSkip>& skips, std::int64_t epoch);

/// The index in the network of the first layer that is still trained. Throws UsageError unless more
/// than `skipped` layers have parameters.
std::size_t first_trained_layer(const ModelGeometry& geometry, std::int64_t skipped);

}  // namespace halomesh
