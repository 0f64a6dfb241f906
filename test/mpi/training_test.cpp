// SPDX-License-Identifier: Apache-2.0
// Training gives the same loss curve on every mesh, and continues it from a checkpoint of any mesh.
//
// A mesh changes nothing but the order of fp32 sums. A sum of n products in another order is the
// exact sum of products whose factors are changed by up to n u, typically sqrt(n) u (u = 2^-24;
// Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 2.6 and 3.1). How much
// the network magnifies such changes over the steps has no simple bound: where two elements of a
// pooling window are nearly equal, rounding decides which one learns. So it is measured: runs on
// one rank from weights changed by sqrt(n) u, n = 27 * 32 being the longest sum of the forward
// pass, in random directions. All their weights are changed at once, which no order of sums does;
// the tolerance of step k is the largest difference that such runs have shown up to step k. It
// is some 1e-6 in the first steps, where a wrong halo, mask or gradient shows at 1e-4 and above.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/train/checkpoint_directory.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSteps = 20, kCheckpoint = 10;
constexpr std::uint64_t kChangedRuns = 5;

// By number of ranks; each resumes from the checkpoint of the previous one.
const std::vector<MeshShape> kEveryKind{{1, {1, 1, 1}}, {1, {3, 1, 1}}, {4, {1, 1, 1}},
                                        {2, {2, 1, 1}}, {1, {4, 1, 1}}, {1, {2, 2, 1}},
                                        {1, {1, 2, 2}}, {1, {2, 2, 2}}, {2, {1, 3, 2}}};
// With these, every axis is cut, into equal and unequal parts, with and without replicas.
const std::vector<MeshShape> kThree{{1, {1, 1, 1}}, {1, {2, 2, 1}}, {2, {1, 3, 2}}};

// The runs of one network under one directory, each with a directory of its own by its name.
class Curves {
 public:
  // `cuts` of the layers are indexed by mesh; none: auto.
  Curves(std::filesystem::path directory, std::int64_t kernel, const std::vector<MeshShape>& meshes,
         std::vector<std::string> cuts)
      : directory_(std::move(directory)),
        kernel_(kernel),
        meshes_(meshes),
        cuts_(std::move(cuts)) {}

  TrainingRequest request(std::size_t mesh, const std::string& run) const {
    TrainingRequest request{kernel_, meshes_[mesh], kSteps, directory_, out(mesh, run), {}, 0};
    if (!cuts_.empty()) request.cuts = cuts_[mesh];
    return request;
  }
  std::int64_t kernel() const { return kernel_; }
  const std::vector<MeshShape>& meshes() const { return meshes_; }
  std::filesystem::path checkpoint(std::size_t mesh) const {
    return out(mesh, "whole") / "checkpoints" / checkpoint_name(kCheckpoint);
  }
  std::vector<double> reference() const { return read_losses(out(0, "whole") / "metrics.jsonl"); }
  std::string name(std::size_t mesh) const {
    return fmt::format("kernel {} on {} x {}{}", kernel_, meshes_[mesh].replicas,
                       to_string(meshes_[mesh].parts), cuts_.empty() ? "" : " " + cuts_[mesh]);
  }

  // Collective over a communicator of one rank: the tolerance of each step, see above.
  void measure_tolerance(const Comm& comm) const {
    for (std::uint64_t seed = 1; seed <= kChangedRuns; ++seed) {
      TrainingRequest changed = request(0, fmt::format("changed{}", seed));
      changed.perturbation = std::sqrt(27.0 * 32.0) * 0x1p-24;
      changed.perturbation_seed = seed;
      train(comm, changed);
    }
  }
  std::vector<double> tolerance() const {
    const std::vector<double> exact = reference();
    std::vector<double> largest(exact.size(), 0.0);
    for (std::uint64_t seed = 1; seed <= kChangedRuns; ++seed) {
      const std::vector<double> changed =
          read_losses(out(0, fmt::format("changed{}", seed)) / "metrics.jsonl");
      double so_far = 0;
      for (std::size_t k = 0; k < largest.size(); ++k) {
        so_far = std::max(so_far, std::abs(changed.at(k) - exact[k]));
        largest[k] = std::max(largest[k], so_far);
      }
    }
    return largest;
  }

 private:
  std::filesystem::path out(std::size_t mesh, const std::string& run) const {
    return directory_ / fmt::format("kernel{}-mesh{}-{}", kernel_, mesh, run);
  }
  std::filesystem::path directory_;
  std::int64_t kernel_;
  const std::vector<MeshShape>& meshes_;
  std::vector<std::string> cuts_;
};

// `got` are the losses from step `first` on.
void compare_curves(const std::vector<double>& got, const std::vector<double>& expected,
                    const std::vector<double>& tolerance, std::int64_t first,
                    const std::string& where, Findings& findings) {
  findings.expect_equal(std::ssize(got), kSteps - first, where + ", steps");
  if (std::ssize(got) != kSteps - first || std::ssize(expected) != kSteps) return;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t k = static_cast<std::size_t>(first) + i;
    const double allowed = tolerance.empty() ? 0.0 : tolerance[k];
    findings.expect(std::abs(got[i] - expected[k]) <= allowed, [&] {
      return fmt::format("{}, loss of step {}: {:g}, {:g} off; allowed {:g}", where, k + 1, got[i],
                         got[i] - expected[k], allowed);
    });
  }
}

// What no part computes needs no exchange: all parts must have work in the first convolutions.
void check_work(const MeshShape& mesh, std::int64_t kernel, Findings& findings) {
  const ModelGeometry geometry = make_training_network(kernel).geometry(mesh.parts);
  for (const LayerPlacement& layer : geometry.layers())
    if (layer.name == "conv1" || layer.name == "conv2" || layer.name == "conv3")
      for (const LayerBoxes& boxes : layer.boxes)
        findings.expect(!boxes.dst_produced.empty(),
                        [&] { return "a part without work in " + layer.name; });
}

void check_mesh(const Comm& comm, const Curves& curves, std::size_t mesh, Findings& findings) {
  const std::string name = curves.name(mesh);
  check_work(curves.meshes()[mesh], curves.kernel(), findings);
  const std::vector<double> whole = train(comm, curves.request(mesh, "whole"));
  if (mesh == 0) curves.measure_tolerance(comm);
  const std::vector<double> tolerance = curves.tolerance();
  compare_curves(whole, curves.reference(), tolerance, 0, name, findings);
  // Step 2 shows the first gradients, step 3 their momentum.
  findings.expect(tolerance[1] < 2e-5 && tolerance[2] < 1e-4 && tolerance.back() < 0.1, [&] {
    return fmt::format("{}: tolerances of {:g}, {:g} and {:g} prove nothing", name, tolerance[1],
                       tolerance[2], tolerance.back());
  });
  compare_curves(train(comm, curves.request(mesh, "again")), whole, {}, 0, name + " again",
                 findings);
  TrainingRequest resumed = curves.request(mesh, "resumed");
  resumed.resume = curves.checkpoint(mesh);
  compare_curves(train(comm, resumed), whole, {}, kCheckpoint, name + " resumed", findings);
  if (mesh == 0) return;
  TrainingRequest taken_over = curves.request(mesh, "taken-over");
  taken_over.resume = curves.checkpoint(mesh - 1);
  compare_curves(train(comm, taken_over), curves.reference(), tolerance, kCheckpoint,
                 fmt::format("{} from {}", name, curves.name(mesh - 1)), findings);
}

void check_curves(std::int64_t kernel, const std::vector<MeshShape>& meshes,
                  const std::vector<std::string>& cuts = {}) {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path());
  test_world().barrier();
  const Curves curves(directory.path(), kernel, meshes, cuts);
  std::set<int> sizes;
  for (const MeshShape& mesh : meshes) sizes.insert(static_cast<int>(mesh.ranks()));
  for_comms(fmt::format("training with kernel {}", kernel), {sizes.begin(), sizes.end()},
            [&](const Comm& comm, Findings& findings) {
              for (std::size_t mesh = 0; mesh < meshes.size(); ++mesh)
                if (meshes[mesh].ranks() == comm.size()) check_mesh(comm, curves, mesh, findings);
            });
}

TEST_CASE("loss curves with kernel 2 are the same on every mesh, and on resuming [12 ranks]") {
  check_curves(2, kEveryKind);
}

TEST_CASE("loss curves with kernel 3 are the same on three meshes, and on resuming [12 ranks]") {
  check_curves(3, kThree);
}

// Each mesh resumes what another has saved under other cuts.
TEST_CASE("loss curves are the same however layers are cut, and on resuming [8 ranks]") {
  const std::vector<MeshShape> meshes{
      {1, {1, 1, 1}}, {1, {2, 2, 1}}, {2, {1, 2, 2}}, {1, {2, 2, 2}}};
  check_curves(2, meshes,
               {"auto", "conv3:2x2,conv4:1x4", "conv3:4x1,conv4:2x2", "conv3:4x2,conv4:2x4"});
  const std::vector<MeshShape> fewer(meshes.begin(), meshes.begin() + 2);
  check_curves(3, fewer, {"auto", "conv3:2x2,conv4:2x2"});
}

}  // namespace
}  // namespace halomesh
