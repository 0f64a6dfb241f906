// SPDX-License-Identifier: Apache-2.0
// The memory of a training process, from the options of `plan`. Needs no MPI launch.
#pragma once

#include <cstdint>

#include "models/network.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/step/part_memory.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares the options on which a run's memory depends, besides the network and its mesh.
void add_memory_options(Options& options);

/// The --precision of `plan`; unlike in runs, this CPU need not support it well.
DataType planned_precision(const Options& options);

/// Forecasts the memory of parts. Prepares the layers of the network of `options` anew for each
/// question, in some tens of milliseconds.
class MemoryForecast {
 public:
  explicit MemoryForecast(const Options& options);

  /// The setting of the following questions.
  MemorySetting& setting() { return setting_; }
  /// `geometry` is that of a cut of the network. Throws Error if its layers cannot be prepared.
  PartMemory of_part(const ModelGeometry& geometry, std::int64_t part) const;
  /// See largest_part().
  std::int64_t largest(const ModelGeometry& geometry) const;

 private:
  NetworkSpec spec_;
  MemorySetting setting_;
};

}  // namespace halomesh
