// SPDX-License-Identifier: Apache-2.0
// Moves parameters between the ranks of a mesh and a checkpoint: see checkpoint.hpp.
#include "runtime/train/checkpoint.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"

namespace halomesh {
namespace {

constexpr int kTag = 0;

/// A failure of rank 0, kept until all ranks can be informed. Empty on the others.
class RootFailure {
 public:
  /// Runs `work` unless an earlier call has failed; stores its exception.
  void attempt(const std::function<void()>& work) {
    if (kind_ != Kind::kNone) return;
    try {
      work();
    } catch (const DamagedCheckpoint& error) {
      keep(Kind::kDamaged, error.what(), error.hint());
    } catch (const Error& error) {
      keep(Kind::kError, error.what(), error.hint());
    } catch (const std::exception& error) {
      keep(Kind::kError, error.what(), {});
    }
  }
  /// Throws rank 0's failure on every rank, if there is one. Collective.
  void agree(const Comm& comm) const {
    const auto kind = static_cast<Kind>(comm.max(static_cast<std::int64_t>(kind_)));
    if (kind == Kind::kNone) return;
    const std::string what = comm.broadcast(what_, 0), hint = comm.broadcast(hint_, 0);
    if (kind == Kind::kDamaged) throw DamagedCheckpoint(what, hint);
    throw Error(what, hint);
  }

 private:
  enum class Kind { kNone, kError, kDamaged };
  void keep(Kind kind, const std::string& what, const std::string& hint) {
    kind_ = kind;
    what_ = what;
    hint_ = hint;
  }
  Kind kind_ = Kind::kNone;
  std::string what_, hint_;
};

/// Runs `work` on rank 0 and throws its failure on every rank. Collective.
void on_root(const Comm& comm, const std::function<void()>& work) {
  RootFailure failure;
  if (comm.rank() == 0) failure.attempt(work);
  failure.agree(comm);
}

/// The trees of the file that `what` selects.
CheckpointTrees trees_of(const Parameters& parameters, LoadWhat what = LoadWhat::kAll) {
  CheckpointTrees trees{"parameters"};
  if (what == LoadWhat::kAll)
    trees.insert(trees.end(), parameters.state_names().begin(), parameters.state_names().end());
  return trees;
}

/// The flat memory that a tree of the file mirrors, by its index in trees_of().
std::span<float> memory_of(Parameters& parameters, std::size_t tree) {
  return tree == 0 ? parameters.values() : parameters.state(tree - 1);
}

/// The rows of a piece in which `slice` has elements, counted from the piece's first row.
Range rows_held(const ParameterSlice& slice, const OutputRows& rows) {
  const Range held = intersect(slice.out, Range{rows.begin, rows.begin + rows.count});
  return {held.lo - rows.begin, held.lo - rows.begin + held.extent()};
}

/// This part's elements of some rows of a parameter: contiguous, because outputs are the slowest
/// axis.
std::span<float> local_rows(Parameters& parameters, std::size_t tree, std::size_t placement,
                            const ParameterPlacement& where, std::int64_t part,
                            const OutputRows& rows) {
  const ParameterRange* range = parameters.find(placement);
  if (range == nullptr) return {};
  const ParameterSlice& slice = where.slices[static_cast<std::size_t>(part)];
  const Range held = rows_held(slice, rows);
  if (held.extent() == 0) return {};
  const std::int64_t row = slice.in.volume(), first = rows.begin + held.lo - slice.out.lo;
  return memory_of(parameters, tree)
      .subspan(static_cast<std::size_t>(range->offset + first * row),
               static_cast<std::size_t>(held.extent() * row));
}

/// Copies between a dense block of whole rows and those rows of one slice that the block has.
template <class Copy>
void for_each_row_run(const ParameterGeometry& geometry, const ParameterSlice& slice,
                      const OutputRows& rows, Copy copy) {
  ParameterGeometry block = geometry;
  block.out = rows.count;
  for_each_run(block, {rows_held(slice, rows), slice.in},
               [&](std::int64_t local, std::int64_t global, std::int64_t length) {
                 copy(static_cast<std::size_t>(local), static_cast<std::size_t>(global),
                      static_cast<std::size_t>(length));
               });
}

/// Gathers whole rows of a parameter in `block` on part 0. Collective over the group. If several
/// parts hold a slice, the first of them sends it.
void gather_rows(const ProcessMesh& mesh, const ParameterPlacement& where,
                 std::span<const float> mine, const OutputRows& rows, std::span<float> block,
                 std::vector<float>& received) {
  const Comm& group = mesh.group();
  for (const SliceHolders& holders : where.holders) {
    const Range held = rows_held(holders.slice, rows);
    if (held.extent() == 0) continue;
    const int source = narrow<int>(holders.parts.front());
    if (source != 0 && source == group.rank()) {
      Requests message;  // not MPI_Send, whose waiting cannot be interrupted
      mpi_check(MPI_Issend(mine.data(), narrow<int>(mine.size()), MPI_FLOAT, 0, kTag,
                           group.handle(), message.add()));
      message.wait_all();
    }
    if (group.rank() != 0) continue;
    std::span<const float> piece = mine;
    if (source != 0) {
      received.resize(static_cast<std::size_t>(held.extent() * holders.slice.in.volume()));
      group.await_message(source, kTag);
      mpi_check(MPI_Recv(received.data(), narrow<int>(received.size()), MPI_FLOAT, source, kTag,
                         group.handle(), MPI_STATUS_IGNORE));
      piece = received;
    }
    for_each_row_run(where.geometry, holders.slice, rows,
                     [&](std::size_t local, std::size_t global, std::size_t length) {
                       std::copy_n(piece.data() + local, length, block.data() + global);
                     });
  }
}

/// Calls visit(tree, placement index, placement, rows) for every piece of every parameter in each
/// of `trees` trees, in one order on every rank.
template <class Visit>
void for_each_piece(const ModelGeometry& geometry, std::size_t trees, Visit visit) {
  for (std::size_t tree = 0; tree < trees; ++tree) {
    const auto& placements = geometry.parameters();
    for (std::size_t i = 0; i < placements.size(); ++i)
      for (const OutputRows& rows : pieces_of(placements[i].geometry))
        visit(tree, i, placements[i], rows);
  }
}

std::size_t block_volume(const ParameterPlacement& where, const OutputRows& rows) {
  return static_cast<std::size_t>(rows.count * where.geometry.in.volume());
}

}  // namespace

void save_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                     const TrainingState& state, const std::filesystem::path& directory, int keep) {
  const bool writes = mesh.world().rank() == 0;
  const CheckpointTrees trees = trees_of(parameters);
  std::optional<CheckpointWriter> file;
  RootFailure failure;
  if (writes) failure.attempt([&] { file.emplace(directory, geometry, trees, state); });
  std::vector<float> block, received;
  // Rank 0 receives the others' messages even after a failure, of which it informs them when all
  // have sent.
  if (mesh.replica() == 0)
    for_each_piece(geometry, trees.size(),
                   [&](std::size_t tree, std::size_t i, const ParameterPlacement& where,
                       const OutputRows& rows) {
                     if (writes) block.resize(block_volume(where, rows));
                     gather_rows(mesh, where,
                                 local_rows(parameters, tree, i, where, mesh.part(), rows), rows,
                                 block, received);
                     if (writes)
                       failure.attempt([&] { file->write(trees[tree], where, rows, block); });
                   });
  if (writes) {
    failure.attempt([&] { file->commit(); });
    file.reset();  // removes a failed file before the others are informed
    failure.attempt([&] { retire_checkpoints(directory, state.step, keep); });
  }
  failure.agree(mesh.world());
}

TrainingState load_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry,
                              Parameters& parameters, const std::filesystem::path& path,
                              LoadWhat what) {
  const Comm& world = mesh.world();
  CheckpointTrees trees = trees_of(parameters, what);
  std::optional<CheckpointReader> file;
  std::string state;
  bool leaves_out = false;  // a run with fp32 gradients has no losses to record
  on_root(world, [&] {
    file.emplace(path);
    state = to_text(file->state());
    leaves_out = trees.back() == kGradientResidual && !file->has(trees.back());
    if (leaves_out) trees.pop_back();
    file->require_network(geometry, trees, what == LoadWhat::kNeededParameters);
  });
  state = world.broadcast(state, 0);
  if (world.max(std::int64_t{leaves_out}) > 0) {
    const std::span<float> residual = parameters.state(kGradientResidual);
    std::fill(residual.begin(), residual.end(), 0.0f);
    trees = trees_of(parameters, what);
    trees.pop_back();
  }
  std::vector<float> block;
  for_each_piece(geometry, trees.size(),
                 [&](std::size_t tree, std::size_t i, const ParameterPlacement& where,
                     const OutputRows& rows) {
                   block.resize(block_volume(where, rows));
                   on_root(world, [&] { file->read(trees[tree], where, rows, block); });
                   world.broadcast(std::as_writable_bytes(std::span(block)), 0);
                   const auto mine = local_rows(parameters, tree, i, where, mesh.part(), rows);
                   for_each_row_run(
                       where.geometry, where.slices[static_cast<std::size_t>(mesh.part())], rows,
                       [&](std::size_t local, std::size_t global, std::size_t length) {
                         std::copy_n(block.data() + global, length, mine.data() + local);
                       });
                 });
  return state_from_text(state);
}

std::string newest_checkpoint(const Comm& world, const std::filesystem::path& given) {
  return on_first_rank(world, [&] {
    if (!std::filesystem::is_directory(given)) return given.string();
    const auto nested = given / "checkpoints";
    const auto latest = latest_checkpoint(std::filesystem::is_directory(nested) ? nested : given);
    require(latest.has_value(), text("{} holds no checkpoint", given.c_str()),
            "name a checkpoint file, or the --out directory of a training run");
    return latest->string();
  });
}

std::optional<LoadedCheckpoint> load_latest_checkpoint(const ProcessMesh& mesh,
                                                       const ModelGeometry& geometry,
                                                       Parameters& parameters,
                                                       const std::filesystem::path& directory) {
  const Comm& world = mesh.world();
  std::vector<std::filesystem::path> paths;
  on_root(world, [&] { paths = checkpoints_in(directory); });
  const auto count = static_cast<std::size_t>(world.max(std::ssize(paths)));
  std::string failures;
  for (std::size_t i = 0; i < count; ++i) {
    LoadedCheckpoint loaded;
    loaded.path = world.broadcast(world.rank() == 0 ? paths[i].string() : "", 0);
    try {
      loaded.state = load_checkpoint(mesh, geometry, parameters, loaded.path);
    } catch (const DamagedCheckpoint& error) {
      failures += (failures.empty() ? "" : "; ") + std::string(error.what());
      continue;
    }
    if (i == 0) return loaded;
    // Damaged checkpoints are renamed only now: if all are damaged they keep their names, and no
    // later run starts at step 0.
    std::string names;
    on_root(world, [&] {
      for (std::size_t k = 0; k < i; ++k)
        names += (names.empty() ? "" : ", ") + set_aside(paths[k]).filename().string();
    });
    loaded.warning =
        fmt::format("{}; kept as {}, resuming from the previous checkpoint", failures, names);
    return loaded;
  }
  if (count == 0) return std::nullopt;
  throw Error(fmt::format("no checkpoint in {} can be used: {}", directory.string(), failures),
              "restore one of them, or train from scratch with --resume never or another --out");
}

}  // namespace halomesh
