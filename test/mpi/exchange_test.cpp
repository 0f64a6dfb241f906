// SPDX-License-Identifier: Apache-2.0
// Exchange over real messages == InProcessExchange, bit for bit: every rank computes the values of
// all parts from a global formula and moves them itself. Layers are not tested here.
#include "runtime/step/exchange.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <memory>

#include "test/harness/in_process_exchange.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/mpi/exchange_scenes.hpp"

namespace halomesh {
namespace {

// What `part` holds after `cycles` refilled exchanges: all parts moved in this process.
Tensor expected_part(const Scene& scene, std::int64_t number, std::int64_t cycle, int part) {
  std::vector<Tensor> tensors;
  std::vector<View> views;
  for (std::size_t p = 0; p < scene.spans.size(); ++p) {
    tensors.emplace_back(scene.spans[p], scene.batch);
    views.push_back(tensors.back().view());
    fill_part(views.back(), number, cycle, static_cast<std::int64_t>(p));
  }
  if (scene.combine == Combine::kCopy)
    InProcessExchange(scene.plan).copy(views);
  else
    InProcessExchange(scene.plan.reversed()).add_back(views);
  return std::move(tensors[static_cast<std::size_t>(part)]);
}

void compare_bits(ConstView got, ConstView expected, const std::string& where, Findings& findings) {
  for (std::int64_t i = 0; i < expected.batch * expected.sample_volume(); ++i)
    findings.expect(
        std::bit_cast<std::uint32_t>(got.data[i]) == std::bit_cast<std::uint32_t>(expected.data[i]),
        [&] {
          return fmt::format("{}, element {}: {:g}, not {:g}", where, i, got.data[i],
                             expected.data[i]);
        });
}

void compare_bytes(const Exchange& exchange, const Scene& scene, int part, std::int64_t cycles,
                   Findings& findings) {
  const std::int64_t factor = cycles * scene.batch * static_cast<std::int64_t>(sizeof(float));
  findings.expect_equal(exchange.received_bytes(), factor * scene.plan.received_volume(part),
                        scene.name + ", bytes received");
  findings.expect_equal(exchange.sent_bytes(), factor * scene.plan.sent_volume(part),
                        scene.name + ", bytes sent");
}

// Runs several scenes at once, each with its own tag, for some cycles of new values.
void run_scenes(const Comm& comm, const std::vector<Scene>& scenes, Findings& findings) {
  constexpr std::int64_t kCycles = 3;
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const Scene& scene : scenes)
    tensors.emplace_back(scene.spans[static_cast<std::size_t>(comm.rank())], scene.batch);
  for (std::size_t s = 0; s < scenes.size(); ++s)
    exchanges.push_back(std::make_unique<Exchange>(comm, static_cast<int>(s), scenes[s].plan,
                                                   scenes[s].combine, tensors[s].view()));
  for (std::int64_t cycle = 0; cycle < kCycles; ++cycle) {
    for (std::size_t s = 0; s < scenes.size(); ++s) {
      fill_part(tensors[s].view(), static_cast<std::int64_t>(s), cycle, comm.rank());
      exchanges[s]->start();
    }
    // In one cycle no rank polls, in the next all poll until everything has arrived.
    for (std::size_t s = 0; cycle % 2 == 1 && s < scenes.size(); ++s)
      while (!exchanges[s]->progress()) {
      }
    for (std::size_t s = 0; s < scenes.size(); ++s) {
      exchanges[s]->finish();
      exchanges[s]->finish();  // the second does nothing
      const Tensor expected =
          expected_part(scenes[s], static_cast<std::int64_t>(s), cycle, comm.rank());
      compare_bits(tensors[s].view(), expected.view(),
                   fmt::format("{}, cycle {}", scenes[s].name, cycle), findings);
    }
  }
  for (std::size_t s = 0; s < scenes.size(); ++s)
    compare_bytes(*exchanges[s], scenes[s], comm.rank(), kCycles, findings);
}

TEST_CASE("Exchange of random plans equals moving in one process, bit for bit") {
  Coverage coverage;
  for_comms("exchange of random plans", [&](const Comm& comm, Findings& findings) {
    Draws draws(static_cast<std::uint64_t>(100 + comm.size()));
    for (int round = 0; round < 40; ++round) {
      std::vector<Scene> scenes;
      for (int s = 0; s < 4; ++s) scenes.push_back(random_scene(draws, comm.size()));
      for (const Scene& scene : scenes) coverage.count(scene);
      run_scenes(comm, scenes, findings);
    }
  });
  CHECK(coverage.in_place > 20);
  CHECK(coverage.packed > 20);
  CHECK(coverage.many_boxes > 20);
}

TEST_CASE("Exchange of halos equals moving in one process, bit for bit") {
  Coverage coverage;
  for_comms("exchange of halos", [&](const Comm& comm, Findings& findings) {
    Draws draws(static_cast<std::uint64_t>(200 + comm.size()));
    for (const PartGrid& grid : grids_of(comm.size()))
      for (int round = 0; round < 8; ++round) {
        std::vector<Scene> scenes;
        for (int s = 0; s < 3; ++s) scenes.push_back(halo_scene(draws, grid));
        for (const Scene& scene : scenes) coverage.count(scene);
        run_scenes(comm, scenes, findings);
      }
  });
  CHECK(coverage.in_place > 20);
  CHECK(coverage.packed > 20);
}

// H copies owned elements into halos; x has nothing in the halos, y is given on all of the spans.
// Small integers: every sum is exact, so the two inner products are equal, not just close.
void check_adjoint(const Comm& comm, const Scene& forward, std::int64_t number,
                   Findings& findings) {
  const auto part = static_cast<std::size_t>(comm.rank());
  Tensor x(forward.spans[part], forward.batch), y(forward.spans[part], forward.batch);
  Tensor owned(forward.spans[part], forward.batch);  // 1 where an element is not received
  Exchange copy(comm, 0, forward.plan, Combine::kCopy, x.view());
  Exchange add(comm, 1, forward.plan.reversed(), Combine::kAdd, y.view());
  const std::int64_t size = forward.batch * forward.spans[part].volume();
  fill(owned.view(), forward.spans[part], 1.0F);
  for (const Transfer& t : forward.plan.transfers())
    if (t.dst == comm.rank()) fill(owned.view(), t.box, 0.0F);
  std::vector<float> x0(static_cast<std::size_t>(size)), y0(x0);
  const auto integer = [&](std::int64_t stream, std::int64_t i) {
    return static_cast<float>(static_cast<int>(8 * value_of(number, stream, comm.rank(), i)));
  };
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    x.view().data[i] = x0[at] = integer(10, i) * owned.view().data[i];
    y.view().data[i] = y0[at] = integer(11, i);
  }
  copy.start();
  add.start();
  copy.finish();
  add.finish();
  double forward_product = 0, backward_product = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    forward_product += static_cast<double>(x.view().data[i]) * static_cast<double>(y0[at]);
    backward_product += static_cast<double>(x0[at]) * static_cast<double>(y.view().data[i]);
  }
  findings.expect_equal(comm.sum(forward_product), comm.sum(backward_product),
                        forward.name + ", <Hx,y> against <x,H'y>");
}

TEST_CASE("The reversed plan with add is the adjoint of the copy") {
  for_comms("adjoint of exchanges", [](const Comm& comm, Findings& findings) {
    Draws draws(static_cast<std::uint64_t>(300 + comm.size()));
    std::vector<Scene> scenes;
    for (int round = 0; round < 30; ++round) scenes.push_back(random_scene(draws, comm.size()));
    for (const PartGrid& grid : grids_of(comm.size()))
      for (int round = 0; round < 6; ++round) scenes.push_back(halo_scene(draws, grid));
    std::int64_t number = 0;
    for (Scene& scene : scenes) {
      if (scene.combine == Combine::kAdd) scene.plan = scene.plan.reversed();
      check_adjoint(comm, scene, number++, findings);
    }
  });
}

TEST_CASE("An Exchange destroyed while its messages are in flight waits for them") {
  for_comms("destruction of an exchange in flight", [](const Comm& comm, Findings& findings) {
    // Each part sends 64 KiB, too long to be sent eagerly, to the next one around the ring.
    const std::int64_t parts = comm.size(), length = 1 << 14;
    std::vector<Transfer> ring;
    for (std::int64_t p = 0; p < parts && parts > 1; ++p)
      ring.push_back({p, (p + 1) % parts, {{0, p, 0, 0}, {1, p + 1, 1, length}}});
    Tensor tensor(Box::whole({1, parts, 1, length}), 1);
    const View view = tensor.view();
    fill_part(view, 0, 0, comm.rank());
    { Exchange(comm, 0, TransferPlan(ring), Combine::kCopy, view).start(); }
    Tensor expected(view.span, 1);
    fill_part(expected.view(), 0, 0, comm.rank());
    const std::int64_t from = (comm.rank() + parts - 1) % parts;
    Tensor sender(view.span, 1);
    fill_part(sender.view(), 0, 0, from);
    for (std::int64_t w = 0; w < length; ++w)  // received in place: there without finish()
      expected.view().at(0, 0, from, 0, w) = sender.view().at(0, 0, from, 0, w);
    compare_bits(view, expected.view(), "ring", findings);
  });
}

}  // namespace
}  // namespace halomesh
