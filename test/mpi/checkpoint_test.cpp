// SPDX-License-Identifier: Apache-2.0
// Checkpoints between meshes: what any mesh saves, any other loads; failures are the same on all
// ranks.
#include "runtime/train/checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "test/harness/full_disk.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/temp_files.hpp"
#include "test/runtime/train/checkpoint_network.hpp"

namespace halomesh {
namespace {

/// A directory owned by rank 0 and known to every rank; removed when all ranks are done.
class SharedDirectory {
 public:
  explicit SharedDirectory(const Comm& comm) : comm_(comm) {
    if (comm.rank() == 0) own_.emplace();
    path_ = comm.broadcast(own_ ? own_->path().string() : std::string(), 0);
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() {
    if (std::uncaught_exceptions() == 0) comm_.barrier();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const Comm& comm_;
  std::optional<TempDirectory> own_;
  std::filesystem::path path_;
};

/// One rank of a network on a mesh.
struct Scene {
  Scene(const Comm& comm, const PartGrid& grid, std::int64_t wide, std::int64_t taps = 1)
      : mesh(comm, make_mesh(comm.size(), grid)),
        network(grid, wide, 4, taps),
        parameters(network.geometry(), mesh.part()) {}
  void fill_values() { fill(network.geometry(), parameters, mesh.part()); }
  void compare(const std::string& where, Findings& findings) {
    for_each_element(
        network.geometry(), parameters, mesh.part(),
        [&](int tree, std::size_t i, std::size_t at, std::int64_t global) {
          const float got = (tree == 0 ? parameters.values() : parameters.state(0))[at];
          findings.expect_equal(
              got, value_at(tree, i, global),
              fmt::format("{}, tree {}, parameter {}, element {}", where, tree, i, global));
        });
  }

  ProcessMesh mesh;
  CheckpointNetwork network;
  Parameters parameters;
};

/// The whole file against the formula, read only by rank 0.
void compare_file(const std::filesystem::path& path, const ModelGeometry& geometry,
                  Findings& findings) {
  Hdf5File file = Hdf5File::open(path);
  for (int tree : {0, 1})
    for (std::size_t i = 0; i < geometry.parameters().size(); ++i) {
      const ParameterPlacement& where = geometry.parameters()[i];
      const std::string name = fmt::format("{}{}/{}", tree == 0 ? "/parameters/" : "/optimizer/",
                                           where.layer_name, where.geometry.name);
      std::vector<float> values(static_cast<std::size_t>(where.geometry.volume()));
      file.read<float>(name, Slab::whole(file.extents(name)), values);
      for (std::size_t g = 0; g < values.size(); ++g)
        findings.expect_equal(values[g], value_at(tree, i, static_cast<std::int64_t>(g)),
                              fmt::format("{}, element {}", name, g));
    }
}

/// Saves on every mesh of these ranks; each mesh loads what the previous one has saved.
void save_and_load(const Comm& comm, std::int64_t wide, Findings& findings) {
  const SharedDirectory directory(comm);
  std::int64_t step = 0;
  for (std::int64_t parts = 1; parts <= comm.size(); ++parts) {
    if (comm.size() % parts != 0) continue;
    for (const PartGrid& grid : grids_of(parts)) {
      Scene scene(comm, grid, wide);
      const std::string where = fmt::format("parts {}, step {}", to_string(grid), step);
      if (step > 0) {
        const TrainingState state =
            load_checkpoint(scene.mesh, scene.network.geometry(), scene.parameters,
                            directory.path() / checkpoint_name(step));
        findings.expect(state == sample_state(step), [&] { return where + ": another state"; });
        scene.compare(where, findings);
      }
      // Only replica 0 and the first holders have what is to be saved.
      scene.fill_values();
      if (scene.mesh.replica() != 0)
        for (float& value : scene.parameters.values()) value = -1;
      save_checkpoint(scene.mesh, scene.network.geometry(), scene.parameters, sample_state(++step),
                      directory.path(), 2);
      if (comm.rank() == 0)
        compare_file(directory.path() / checkpoint_name(step), scene.network.geometry(), findings);
    }
  }
}

std::string text_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return {};
}

/// Collective: `work` must end with the same Error, which contains `part`, on every rank.
void expect_same_error(const Comm& comm, const std::function<void()>& work, const std::string& part,
                       Findings& findings) {
  const std::string mine = text_of(work);
  for (const std::string& other : comm.all_gather(mine))
    findings.expect_equal(other, mine, "the same error everywhere");
  findings.expect(mine.find(part) != std::string::npos,
                  [&] { return fmt::format("\"{}\" is not in \"{}\"", part, mine); });
}

/// Every way in which saving may fail on rank 0.
void failing_saves(const Comm& comm, Findings& findings) {
  const SharedDirectory directory(comm);
  Scene scene(comm, {comm.size(), 1, 1}, 40);
  scene.fill_values();
  const auto save = [&](std::int64_t step, const std::filesystem::path& to) {
    save_checkpoint(scene.mesh, scene.network.geometry(), scene.parameters, sample_state(step), to,
                    1);
  };
  save(1, directory.path());
  const auto path = directory.path() / checkpoint_name(1);
  const std::string whole = contents(path);
  comm.barrier();
  for (std::size_t limit = 0; limit < whole.size(); limit += 4001)
    expect_same_error(
        comm,
        [&] {
          std::optional<FileSizeLimit> full;
          if (comm.rank() == 0) full.emplace(static_cast<std::int64_t>(limit));
          save(2, directory.path());
        },
        "step-000000002.h5", findings);
  expect_same_error(
      comm, [&] { save(2, path / "checkpoints"); }, "Not a directory", findings);
  findings.expect(contents(path) == whole, [] { return "the older checkpoint has changed"; });
  const auto entries = std::distance(std::filesystem::directory_iterator(directory.path()),
                                     std::filesystem::directory_iterator());
  findings.expect_equal<std::int64_t>(entries, 1, "files left");
}

/// Damage that rank 0 meets early, late, or in the geometry.
void failing_loads(const Comm& comm, Findings& findings) {
  const SharedDirectory directory(comm);
  Scene scene(comm, {1, 1, comm.size()}, 40);
  scene.fill_values();
  save_checkpoint(scene.mesh, scene.network.geometry(), scene.parameters, sample_state(1),
                  directory.path(), 1);
  const auto path = directory.path() / checkpoint_name(1);
  const auto load = [&](Scene& into, const std::filesystem::path& from) {
    load_checkpoint(into.mesh, into.network.geometry(), into.parameters, from);
  };
  expect_same_error(
      comm, [&] { load(scene, directory.path() / "none.h5"); }, "no such checkpoint", findings);
  Scene other(comm, {1, 1, comm.size()}, 41);
  expect_same_error(
      comm, [&] { load(other, path); }, "fc1/weight has shape 40x240; expected 41x240", findings);
  const std::string whole = contents(path);
  // The bytes of one element of the velocity, read long after the first broadcasts.
  const float velocity = value_at(1, 3, 100);
  const std::size_t at = whole.find(std::string(reinterpret_cast<const char*>(&velocity), 4));
  findings.expect(at != std::string::npos, [] { return "the element is not in the file"; });
  const auto rewrite = [&](const std::string& bytes) {
    comm.barrier();
    if (comm.rank() == 0) put_contents(path, bytes);
    comm.barrier();
  };
  std::string damaged = whole;
  damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
  rewrite(damaged);
  expect_same_error(
      comm, [&] { load(scene, path); }, "cannot read /optimizer/fc1/weight", findings);
  rewrite(whole.substr(0, whole.size() / 2));
  expect_same_error(
      comm, [&] { load(scene, path); }, "truncated file", findings);
  rewrite(whole);
  load(scene, path);
  scene.compare("after all", findings);
}

}  // namespace

TEST_CASE("any mesh loads what any mesh has saved") {
  for_comms("checkpoint",
            [](const Comm& comm, Findings& findings) { save_and_load(comm, 7, findings); });
}

TEST_CASE("parameters of several pieces are assembled") {
  for_comms("checkpoint in pieces", {4}, [](const Comm& comm, Findings& findings) {
    const SharedDirectory directory(comm);
    Scene scene(comm, {2, 1, 1}, 9000, 450);
    scene.fill_values();
    save_checkpoint(scene.mesh, scene.network.geometry(), scene.parameters, sample_state(1),
                    directory.path(), 1);
    if (comm.rank() == 0)
      compare_file(directory.path() / checkpoint_name(1), scene.network.geometry(), findings);
    Scene into(comm, {1, 2, 2}, 9000, 450);
    load_checkpoint(into.mesh, into.network.geometry(), into.parameters,
                    directory.path() / checkpoint_name(1));
    into.compare("pieces", findings);
  });
}

TEST_CASE("a checkpoint that cannot be saved gives the same error on all ranks") {
  for_comms("failing saves", failing_saves);
}

TEST_CASE("a checkpoint that cannot be loaded gives the same error on all ranks") {
  for_comms("failing loads", failing_loads);
}

}  // namespace halomesh
