// SPDX-License-Identifier: Apache-2.0
// The memory of a training process, from the options of `plan`. Needs no MPI launch.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/network.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/step/part_memory.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// A share of PartMemory, as tables name it.
struct MemoryTerm {
  const char* name;
  std::int64_t PartMemory::*bytes;
};
inline constexpr std::array kMemoryTerms = {
    MemoryTerm{"tensors of a step, which share it", &PartMemory::tensors},
    MemoryTerm{"parameters and gradients", &PartMemory::parameters},
    MemoryTerm{"state of the optimizer", &PartMemory::optimizer},
    MemoryTerm{"packed weights, places of maxima", &PartMemory::layers},
    MemoryTerm{"scratch that layers share", &PartMemory::scratch},
    MemoryTerm{"samples in use and being read", &PartMemory::input},
    MemoryTerm{"buffers of halos", &PartMemory::exchanges},
    MemoryTerm{"buffers of gradient sums", &PartMemory::sums},
    MemoryTerm{"program and libraries", &PartMemory::program}};

/// The largest term with its percentage of the whole, e.g. "buffers of halos, 66 %".
std::string largest_share(const PartMemory& memory);

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
