// SPDX-License-Identifier: Apache-2.0
// The memory of requests outlives its owner while an exception unwinds, and only then.
#include "runtime/mpi/in_flight.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "error.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "runtime/mpi/piece_messages.hpp"
#include "runtime/step/exchange.hpp"
#include "runtime/step/executor.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "test/harness/mpi_allocation_count.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/skip.hpp"
#include "test/mpi/small_networks.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kBytes = 1 << 20;

// Bytes that remain allocated after `work` has ended, normally or by an Error.
std::int64_t left_by(const std::function<void()>& work) {
  const std::int64_t before = test::live_bytes();
  try {
    work();
  } catch (const Error&) {
  }
  return test::live_bytes() - before;
}

// Part 0 sends two boxes to each other part: in one message, which is packed.
TransferPlan fan_out(std::int64_t parts) {
  std::vector<Transfer> transfers;
  for (std::int64_t p = 1; p < parts; ++p)
    for (std::int64_t d : {0, 2})
      transfers.push_back({0, p, {{0, d, 0, 0}, {1, d + 1, 1, kBytes / 8}}});
  return TransferPlan(transfers);
}

TEST_CASE("buffers of active requests are leaked while an exception unwinds, and freed otherwise") {
  if (test::live_bytes() < 0) return test::skip_case("the sanitizer owns operator new");
  for_comms("owners of requests that unwind", {2, 4}, [](const Comm& comm, Findings& findings) {
    Tensor tensor(Box::whole({1, 3, 1, kBytes / 8}), 1);
    const TransferPlan plan = fan_out(comm.size());
    // All requests can complete without the ranks that started them.
    const auto exchange = [&](bool throws) {
      Exchange active(comm, throws ? 1 : 0, plan, Combine::kCopy, tensor.any_view());
      active.start();
      comm.barrier();
      if (throws) throw Error("while messages are in flight");
    };
    const auto any = [&](bool throws) {
      NonblockingAny active(comm);
      active.start(true);
      comm.barrier();
      if (throws) throw Error("while a reduction is in flight");
    };
    const auto pieces = [&](bool throws) {
      const Comm own = comm.dup();
      PieceMessages active(own, kBytes, 0, 2, [](int, auto) {});
      comm.barrier();
      if (throws) throw Error("while pieces are in flight");
    };
    const auto executor = [&](bool throws) {
      SmallNetworkBuilder layers("halos without parameters", {2, 32, 32, 32});
      layers.leaky_relu(layers.max_pooling(3, 1, 0));
      SmallNetwork network = layers.take();
      const ModelGeometry geometry = network.model.geometry({comm.size(), 1, 1});
      Parameters parameters(geometry, comm.rank());
      Executor active(comm, network.model, geometry, parameters, 1, false);
      comm.barrier();
      if (throws) throw Error("while a network computes");
    };
    const auto reducer = [&](bool throws) {
      const ProcessMesh mesh(comm, {comm.size(), {1, 1, 1}});
      SmallNetworkBuilder layers("parameters", {2, 32, 32, 32});
      layers.dense(2, 0);
      SmallNetwork network = layers.take();
      const ModelGeometry geometry = network.model.geometry({1, 1, 1});
      Parameters parameters(geometry, 0);
      GradientReducer active(mesh, geometry, parameters);
      active.begin();
      active.completed(0);
      comm.barrier();
      if (throws) throw Error("while gradients are summed");
    };
    const auto check = [&](const char* name, std::int64_t least, const auto& work) {
      const std::int64_t freed = left_by([&] { work(false); });
      findings.expect(freed < least,
                      [&] { return fmt::format("{} leaves {} bytes", name, freed); });
      const std::int64_t leaked = left_by([&] { work(true); });
      findings.expect(leaked >= least,
                      [&] { return fmt::format("{} leaks {} bytes", name, leaked); });
    };
    check("Exchange", kBytes, exchange);
    check("PieceMessages", 2 * kBytes, pieces);
    check("NonblockingAny", 4, any);
    check("Executor", 2 * 4 * 2 * 32 * 32 * 32 / comm.size(), executor);
    check("GradientReducer", 4 * 2 * 2 * 32 * 32 * 32, reducer);
    comm.barrier();
  });
}

}  // namespace
}  // namespace halomesh
