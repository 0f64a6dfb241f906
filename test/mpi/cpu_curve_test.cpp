// SPDX-License-Identifier: Apache-2.0
// A tiny network's loss curve is the same on 1 and 2 ranks, and on CPUs of another kind.
//
// HALOMESH_CURVES names a directory for the curves of one rank and their tolerances. A build that
// finds it empty fills it; one for another CPU (see make test-a64fx) is compared with it.
//
// Another CPU changes the order of fp32 sums, as another mesh does, and the last bit of functions
// such as log. So the tolerance is measured as in training_test.cpp: by runs whose first weights
// are changed by sqrt(n) u in random directions, n = 27 * 32 being no less than the longest sum of
// the forward pass. Wrong lanes, layouts or halos show at 1e-3 and above.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <utility>

#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/test_comm.hpp"
#include "test/mpi/training_run.hpp"

namespace halomesh {
namespace {

constexpr Shape kTinyInput{4, 16, 16, 16};
constexpr std::size_t kTinySteps = 6;
#if defined(__ARM_FEATURE_SVE)
constexpr bool kOnSve = true;
#else
constexpr bool kOnSve = false;
#endif

struct ToleratedCurve {
  std::vector<double> loss, tolerance;
};

TrainingRequest request_of(const std::filesystem::path& directory, std::int64_t kernel,
                           const MeshShape& mesh, const std::string& name) {
  TrainingRequest request;
  request.kernel = kernel;
  request.mesh = mesh;
  request.steps = kTinySteps;
  request.data = directory;
  request.out = directory / fmt::format("kernel{}-{}", kernel, name);
  request.input = kTinyInput;
  request.conv_layers = 3;
  return request;
}

// Collective over a communicator of one rank.
ToleratedCurve measure(const Comm& comm, const std::filesystem::path& directory,
                       std::int64_t kernel) {
  ToleratedCurve curve;
  const MeshShape alone{1, {1, 1, 1}};
  curve.loss = train(comm, request_of(directory, kernel, alone, "one-rank"));
  curve.tolerance.assign(curve.loss.size(), 0.0);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    TrainingRequest changed = request_of(directory, kernel, alone, fmt::format("changed{}", seed));
    changed.perturbation = std::sqrt(27.0 * 32.0) * 0x1p-24;
    changed.perturbation_seed = seed;
    const std::vector<double> loss = train(comm, changed);
    double so_far = 0;
    for (std::size_t k = 0; k < loss.size(); ++k) {
      so_far = std::max(so_far, std::abs(loss[k] - curve.loss.at(k)));
      curve.tolerance[k] = std::max(curve.tolerance[k], so_far);
    }
  }
  return curve;
}

void write(const ToleratedCurve& curve, const std::filesystem::path& path) {
  std::ofstream out(path);
  out << std::setprecision(std::numeric_limits<double>::max_digits10);
  for (std::size_t k = 0; k < curve.loss.size(); ++k)
    out << curve.loss[k] << ' ' << curve.tolerance[k] << '\n';
}

ToleratedCurve read(const std::filesystem::path& path) {
  ToleratedCurve curve;
  std::ifstream in(path);
  for (double loss = 0, tolerance = 0; in >> loss >> tolerance;) {
    curve.loss.push_back(loss);
    curve.tolerance.push_back(tolerance);
  }
  return curve;
}

// On a CPU with SVE, oneDNN's SVE kernels must do the work, or our own: its others are plain loops
// there.
void check_kernels(const Comm& comm, const Executor& executor, GradientKernels kernels,
                   Findings& findings) {
  std::size_t seen = 0, sve = 0, sparse = 0, winograd = 0;
  for (const std::string& line : executor.implementations()) {
    if (comm.rank() == 0) std::cout << "  " << line << '\n';
    if (!line.starts_with("conv")) continue;
    ++seen;
    findings.expect(line.find("ref") == std::string::npos, [&] { return "slow kernel: " + line; });
    const bool is_sve = line.find("sve_512") != std::string::npos;
    sve += is_sve ? 1 : 0;
    sparse += line.ends_with("sparse:halomesh") ? 1 : 0;
    winograd += line.ends_with("winograd:halomesh") ? 1 : 0;
    if (kOnSve)
      findings.expect(is_sve || line.ends_with(":halomesh"),
                      [&] { return "not an SVE kernel: " + line; });
  }
  findings.expect(seen >= 6, [&] { return fmt::format("only {} kernels of convolutions", seen); });
  const bool dense = kernels == GradientKernels::kDense;
  if (kOnSve)
    findings.expect(sve + winograd >= (dense ? 4 : 2), [&] {
      return fmt::format("only {} SVE kernels, {} by Winograd's filtering", sve, winograd);
    });
  findings.expect(dense ? sparse == 0 : sparse >= 2 || kernels != GradientKernels::kSparse,
                  [&] { return fmt::format("{} sparse gradients", sparse); });
  findings.expect(dense ? winograd == 0 : winograd >= 1 || kernels != GradientKernels::kWinograd,
                  [&] { return fmt::format("{} by Winograd's filtering", winograd); });
}

// Each step within its tolerance; rank 0 prints how close it was.
void compare(const std::vector<double>& got, const ToleratedCurve& expected,
             const std::string& where, bool speaks, Findings& findings) {
  findings.expect_equal(got.size(), kTinySteps, where + ", steps");
  findings.expect_equal(expected.loss.size(), kTinySteps, where + ", steps expected");
  double largest = 0, share = 0;
  for (std::size_t k = 0; k < std::min(got.size(), expected.loss.size()); ++k) {
    const double off = std::abs(got[k] - expected.loss[k]), allowed = expected.tolerance[k];
    largest = std::max(largest, off);
    share = std::max(share, off / allowed);
    findings.expect(off <= allowed, [&] {
      return fmt::format("{}, loss of step {}: {:g}, {:g} off; allowed {:g}", where, k + 1, got[k],
                         off, allowed);
    });
  }
  if (speaks)
    std::cout << where << ": losses differ by at most " << largest << ", " << share
              << " of the tolerance\n";
  findings.expect(expected.tolerance[1] < 2e-5 && expected.tolerance.back() < 1e-2,
                  [&] { return where + ": the tolerances prove nothing"; });
}

void check_cpu_curve(const Comm& comm, const std::filesystem::path& directory,
                     const std::filesystem::path& curve, std::int64_t kernel, Findings& findings) {
  if (comm.size() == 1) {
    if (!std::filesystem::exists(curve)) write(measure(comm, directory, kernel), curve);
    findings.expect(std::filesystem::exists(curve), [&] { return "no " + curve.string(); });
    return;
  }
  const ToleratedCurve expected = read(curve);
  const auto name_of = [](GradientKernels kernels) {
    return kernels == GradientKernels::kDense    ? "dense"
           : kernels == GradientKernels::kSparse ? "sparse"
                                                 : "winograd";
  };
  for (const GradientKernels kernels :
       {GradientKernels::kDense, GradientKernels::kSparse, GradientKernels::kWinograd})
    for (const MeshShape& mesh : {MeshShape{1, {2, 1, 1}}, MeshShape{2, {1, 1, 1}}}) {
      const std::string name =
          fmt::format("{}x{}-{}", mesh.replicas, to_string(mesh.parts), name_of(kernels));
      TrainingRequest request = request_of(directory, kernel, mesh, name);
      request.kernels = kernels;
      request.after = [&](const Executor& e) { check_kernels(comm, e, kernels, findings); };
      const std::vector<double> loss = train(comm, request);
      compare(loss, expected, fmt::format("kernel {} on {}", kernel, name), comm.rank() == 0,
              findings);
    }
}

void check_tiny_network(std::int64_t kernel) {
  const SharedDirectory directory(test_world());
  if (test_world().rank() == 0) write_training_data(directory.path(), kTinyInput);
  test_world().barrier();
  const char* const shared = std::getenv("HALOMESH_CURVES");
  const std::filesystem::path curves = shared != nullptr ? shared : directory.path();
  for_comms(fmt::format("kernel {}", kernel), {1, 2}, [&](const Comm& comm, Findings& findings) {
    check_cpu_curve(comm, directory.path(), curves / fmt::format("kernel{}.curve", kernel), kernel,
                    findings);
  });
}

TEST_CASE("a tiny network has one curve on 1 and 2 ranks and another CPU, kernel 2 [2 ranks]") {
  check_tiny_network(2);
}

TEST_CASE("a tiny network has one curve on 1 and 2 ranks and another CPU, kernel 3 [2 ranks]") {
  check_tiny_network(3);
}

}  // namespace
}  // namespace halomesh
