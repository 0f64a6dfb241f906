// SPDX-License-Identifier: Apache-2.0
// All meshes of a job on a machine with their forecasts: which one is best, why, and on which
// numbers that depends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/step/recompute_choice.hpp"
#include "src/apps/forecast/run_forecast.hpp"

namespace halomesh {

/// The relative difference below which two times count as equal, given how little is known of a
/// machine.
constexpr double kTie = 0.005;

struct Job {
  std::int64_t nodes = 1;
  std::int64_t max_parts = 64;
  Workload work;
  ForecastOptions options;
  /// Bytes of the rank that needs most, with `batch` samples per replica; empty: any mesh fits.
  /// Both numbers are equal if a run does not choose between them (--recompute auto).
  std::function<MemoryNeed(const Machine& machine, const ModelGeometry& geometry,
                           const MeshShape& mesh, std::int64_t batch)>
      memory{};
  /// Called before each forecast with the number of earlier ones; may be empty.
  std::function<void(std::int64_t made)> progress{};
};

struct MeshForecast {
  MeshShape mesh;
  std::int64_t local_batch = 1;
  StepForecast step, evaluation;
  RunForecast run;
  /// Samples per second and rank, relative to the smallest mesh of one replica.
  double efficiency = 1;
  std::int64_t memory_bytes = 0;  ///< bytes of the rank that needs most
  bool recomputes = false;        ///< the choice of --recompute auto
  bool fits = true;               ///< in the memory of a node
};

/// The fewest nodes that hold one sample.
struct LeastNodes {
  std::int64_t nodes = 1;
  PartGrid parts;
  std::int64_t memory_bytes = 0;  ///< bytes of the rank that needs most
};

/// An assumed number and the effect of varying it by 25 % either way.
struct Sensitivity {
  std::string number;
  double value = 0;
  double change_low = 0, change_high = 0;  ///< relative changes of the best mesh's time: x 0.75, x
                                           ///< 1.25
  /// The best mesh at either value, if it changes; else empty.
  std::string best_low, best_high;
};

/// Forecasts all meshes of a job.
class MeshSearch {
 public:
  /// `machine` is derived for the job's ranks per node. Throws UsageError if the job has more nodes
  /// than the machine, or if no mesh divides the batch (naming batches that would do).
  MeshSearch(const Machine& machine, const Model& model, const Job& job);

  /// All meshes by time to solution; those that fit the memory come first.
  std::vector<MeshForecast> forecasts() const { return forecasts_of(machine_, grids_, false); }
  /// Empty if the memory of a node is not known, or no cut of one sample into at most max_parts
  /// fits.
  std::optional<LeastNodes> least_nodes() const;
  /// Sentences that say why numbers of parts are left out.
  const std::vector<std::string>& hints() const { return hints_; }
  /// The assumed numbers by their effect on the best mesh of each number of parts in `ranked`.
  std::vector<Sensitivity> sensitivities(const std::vector<MeshForecast>& ranked) const;

  MeshSearch(const MeshSearch&) = delete;
  MeshSearch& operator=(const MeshSearch&) = delete;

 private:
  const ModelGeometry& geometry(const PartGrid& grid) const;
  void find_grids();
  // The cuts into so many parts that the input has the extents for.
  std::vector<PartGrid> grids_of(std::int64_t parts) const;
  std::string fewer_nodes() const;
  double base_rate(const Machine& machine) const;
  MemoryNeed memory_need(const MeshForecast& f) const;
  // Chooses whether outputs are computed again, and says whether the memory of a node suffices.
  static void fit_memory(const Machine& machine, const MemoryNeed& need, MeshForecast& f);
  // With `keep`, geometries and outlines are kept because these meshes will be forecast again:
  // those of all meshes of a U-Net take a gigabyte.
  std::vector<MeshForecast> forecasts_of(const Machine& machine, const std::vector<PartGrid>& grids,
                                         bool keep) const;

  Machine machine_;
  const Model& model_;
  Job job_;
  mutable ForecastCache cache_;
  std::vector<PartGrid> grids_;
  std::vector<std::string> hints_;
  mutable std::map<std::string, std::unique_ptr<ModelGeometry>> geometries_;
  mutable std::map<std::string, MemoryNeed> memory_;  // by parts
  mutable std::int64_t made_ = 0;                     // the number of forecasts
};

/// The mesh in the form "4x4x1 x 512".
std::string to_string(const MeshShape& mesh);

/// Sentences that say why `best` is faster than `other`, by the terms that differ most.
std::vector<std::string> reasons(const MeshForecast& best, const MeshForecast& other);

}  // namespace halomesh
