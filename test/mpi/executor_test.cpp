// SPDX-License-Identifier: Apache-2.0
// A step of small networks on any mesh equals that on one rank: output, every gradient, bytes
// moved.
//
// The tolerance is zero. Inputs, output gradients and weights are small integers, and all other
// factors are powers of two, so every number in the step is a multiple of 2^-fraction_bits. With
// |a|_1 the sum of absolute values: a layer whose filters have |w_o|_1 <= R enlarges the largest
// value at most by R (and the bias) and, backward, |diff|_1 at most by R as each element is spread
// over one filter. A weight's gradient is a sum of products value * diff, so each of its partial
// sums is at most max |input| * |output diff|_1 * the product of all R. Where this is below
// 2^(24 - fraction_bits), nothing is ever rounded in fp32 (24-bit significands), and the order of
// summation, all that a mesh may change, has no effect. The test computes that bound.
#include "runtime/step/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "rng.hpp"
#include "runtime/step/part_memory.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/pointwise.hpp"
#include "src/nn/model_on_part.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/mpi/counted_messages.hpp"
#include "test/mpi/network_run.hpp"
#include "test/mpi/small_networks.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kNonZero = 3;  // weights of a filter, approximately

std::uint32_t draw(std::uint32_t stream, std::int64_t index) {
  return CounterRng(11, RandomUse::kSynth, stream).block(static_cast<std::uint64_t>(index))[0];
}

// Integers of -2..2 as input, of -1..1 as output gradient and biases; of each filter's weights
// about kNonZero are 1 or -1.
StepValues integer_values(const ModelGeometry& geometry) {
  StepValues values;
  values.parameter = [&geometry](std::size_t placement, std::int64_t index) {
    const ParameterGeometry& p = geometry.parameters()[placement].geometry;
    const std::uint32_t bits = draw(static_cast<std::uint32_t>(100 + placement), index);
    if (p.name == "bias") return static_cast<float>(static_cast<int>(bits % 3) - 1);
    const auto among = static_cast<std::uint32_t>(std::max(p.in.volume(), kNonZero));
    if (bits / 2 % among >= kNonZero) return 0.0F;
    return bits % 2 == 0 ? 1.0F : -1.0F;
  };
  values.input = [](std::int64_t sample, std::int64_t element) {
    return static_cast<float>(
        static_cast<int>(draw(static_cast<std::uint32_t>(sample), element) % 5) - 2);
  };
  values.output_diff = [](std::int64_t sample, std::int64_t element) {
    return static_cast<float>(
        static_cast<int>(draw(static_cast<std::uint32_t>(50 + sample), element) % 3) - 1);
  };
  return values;
}

StepValues real_values() {
  const auto real = [](std::uint32_t stream, std::int64_t index) {
    return static_cast<float>(draw(stream, index)) * 0x1p-31F - 1.0F;
  };
  StepValues values;
  values.parameter = [real](std::size_t placement, std::int64_t index) {
    return 0.1F * real(static_cast<std::uint32_t>(100 + placement), index);
  };
  values.input = [real](std::int64_t sample, std::int64_t element) {
    return real(static_cast<std::uint32_t>(sample), element);
  };
  values.output_diff = [real](std::int64_t sample, std::int64_t element) {
    return real(static_cast<std::uint32_t>(50 + sample), element);
  };
  return values;
}

// The bound derived at the top of this file, from the values themselves.
double largest_number(const ModelGeometry& geometry, const StepValues& values, double growth,
                      std::int64_t samples) {
  double largest = 2, product = growth;  // |input| and biases; all R
  for (std::size_t p = 0; p < geometry.parameters().size(); ++p) {
    const ParameterGeometry& parameter = geometry.parameters()[p].geometry;
    const std::int64_t inputs = parameter.in.volume();
    double filter = 0;
    for (std::int64_t o = 0; o < parameter.out; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        sum += std::abs(static_cast<double>(values.parameter(p, o * inputs + i)));
      filter = std::max(filter, sum);
    }
    // As R >= 1, a bias b adds no more than it would to the input: |x| R + b <= (|x| + b) R.
    if (parameter.name == "weight") product *= std::max(filter, 1.0);
    if (parameter.name == "bias") largest += filter;
  }
  double diff = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t i = 0; i < geometry.tensors().back().shape.volume(); ++i)
      diff += std::abs(static_cast<double>(values.output_diff(n, i)));
  return largest * diff * product;
}

// Output and gradients of `run` against those of one rank that computes the whole batch.
void compare_runs(NetworkRun& run, NetworkRun& serial, const std::string& name,
                  Findings& findings) {
  const ConstView out = run.executor().output(), expected = serial.executor().output();
  const Box& owned =
      run.geometry().tensors().back().owned[static_cast<std::size_t>(run.mesh().part())];
  for_each_element(run.local_batch(), owned, [&](auto n, auto c, auto d, auto h, auto w) {
    const float got = out.at(n, c, d, h, w);
    const float want = expected.at(run.first_sample() + n, c, d, h, w);
    findings.expect(got == want,
                    [&] { return fmt::format("{}, output: {:g}, not {:g}", name, got, want); });
  });
  for_each_held(run.parameters(), run.geometry(), run.mesh().part(),
                [&](auto at, auto placement, auto index) {
                  const ParameterRange* whole = serial.parameters().find(placement);
                  const float got = run.parameters().diffs()[at];
                  const float want =
                      serial.parameters().diffs()[static_cast<std::size_t>(whole->offset + index)];
                  findings.expect(got == want, [&] {
                    const ParameterPlacement& p = run.geometry().parameters()[placement];
                    return fmt::format("{}, gradient of {} {} {}: {:g}, not {:g}", name,
                                       p.layer_name, p.geometry.name, index, got, want);
                  });
                });
}

void compare_bytes(const NetworkRun& run, std::int64_t steps, const std::string& name,
                   Findings& findings) {
  std::int64_t volume = 0;
  for (std::size_t t = 1; t < run.geometry().tensors().size(); ++t)
    volume += run.geometry().tensors()[t].distribute.received_volume(run.mesh().part());
  findings.expect_equal(run.executor().received_bytes(Phase::kHaloWait),
                        steps * run.local_batch() * volume * 4, name + ", halo bytes");
}

constexpr std::int64_t kLocalBatch = 2;

void check_mesh(const Comm& comm, const MeshShape& mesh, NetworkRun& serial, SmallNetwork network,
                Findings& findings) {
  NetworkRun run(comm, mesh, std::move(network.model), kLocalBatch, serial.values());
  const std::string where =
      fmt::format("{} on {} x {}", network.name, mesh.replicas, to_string(mesh.parts));
  for (int step = 1; step <= 2; ++step) {
    run.step();
    compare_runs(run, serial, fmt::format("{}, step {}", where, step), findings);
  }
  compare_bytes(run, 2, where, findings);
}

// All meshes of the communicator's size against one rank; 2 samples per replica.
void check_network(const Comm& comm, SmallNetwork (*make)(), Findings& findings) {
  const Comm alone = comm.split(comm.rank(), 0);
  for (std::int64_t parts = 1; parts <= comm.size(); ++parts) {
    if (comm.size() % parts != 0) continue;
    const std::int64_t replicas = comm.size() / parts;
    SmallNetwork network = make();
    const ModelGeometry whole = network.model.geometry({1, 1, 1});
    const StepValues values = integer_values(whole);
    const std::string name = network.name;
    const double largest = largest_number(whole, values, network.growth, replicas * kLocalBatch);
    findings.expect(largest < std::ldexp(1.0, 24 - network.fraction_bits), [&] {
      return fmt::format("{}: numbers up to {:g} are not exact", name, largest);
    });
    NetworkRun serial(alone, {1, {1, 1, 1}}, std::move(network.model), replicas * kLocalBatch,
                      values);
    serial.step();
    for (const PartGrid& grid : grids_of(parts))
      check_mesh(comm, {replicas, grid}, serial, make(), findings);
  }
}

// Every pair of cuts of the last two blocks on one grid, against one rank.
void check_cuts(const Comm& comm, const PartGrid& grid, Findings& findings) {
  const Comm alone = comm.split(comm.rank(), 0);
  const MeshShape mesh = make_mesh(comm.size(), grid);
  SmallNetwork network = mixed_cuts_network("space");
  const ModelGeometry whole = network.model.geometry({1, 1, 1});
  const StepValues values = integer_values(whole);
  const double largest = largest_number(whole, values, network.growth, mesh.replicas * kLocalBatch);
  findings.expect(largest < std::ldexp(1.0, 24 - network.fraction_bits),
                  [&] { return fmt::format("numbers up to {:g} are not exact", largest); });
  NetworkRun serial(alone, {1, {1, 1, 1}}, std::move(network.model), mesh.replicas * kLocalBatch,
                    values);
  serial.step();
  std::vector<std::string> pairs;
  for (const TensorCut& a : all_cuts(grid))
    for (const TensorCut& b : all_cuts(grid))
      if (a.groups <= 4 && b.groups <= 6)  // of 64 and 96 channels
        pairs.push_back(fmt::format("block1:{},block2:{}", to_string(a), to_string(b)));
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  findings.expect(pairs.size() > 3, [] { return std::string("too few cuts"); });
  for (const std::string& cuts : pairs)
    check_mesh(comm, mesh, serial, mixed_cuts_network(cuts), findings);
}

TEST_CASE("every cut in space and channels gives the step of one rank, exactly [8 ranks]") {
  for (const PartGrid grid : {PartGrid{2, 1, 1}, PartGrid{2, 2, 1}, PartGrid{3, 2, 1},
                              PartGrid{1, 2, 3}, PartGrid{2, 2, 2}, PartGrid{4, 1, 2}})
    for_comms("cuts of " + to_string(grid), {static_cast<int>(grid.count())},
              [grid](const Comm& comm, Findings& findings) { check_cuts(comm, grid, findings); });
  for_comms("cuts of two replicas", {8}, [](const Comm& comm, Findings& findings) {
    check_cuts(comm, {2, 2, 1}, findings);
  });
}

TEST_CASE("a step of a small network on any mesh equals that on one rank, exactly") {
  for (const auto make : small_networks())
    for_comms(make().name, [make](const Comm& comm, Findings& findings) {
      check_network(comm, make, findings);
    });
}

TEST_CASE("a step on the same mesh gives the same bits again") {
  for_comms("repeated steps", {2, 3, 6}, [](const Comm& comm, Findings& findings) {
    for (const auto make : small_networks())
      for (const PartGrid& grid : grids_of(comm.size())) {
        NetworkRun first(comm, {1, grid}, make().model, 2, real_values());
        NetworkRun second(comm, {1, grid}, make().model, 2, real_values());
        first.step();
        second.step();
        first.step();  // memory and requests used before
        const auto compare = [&](float a, float b) {
          findings.expect_equal(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b),
                                fmt::format("{} on {}, bits", make().name, to_string(grid)));
        };
        const ConstView a = first.executor().output(), b = second.executor().output();
        for (std::int64_t i = 0; i < a.batch * a.sample_volume(); ++i)
          compare(a.data[i], b.data[i]);
        for (std::size_t i = 0; i < first.parameters().diffs().size(); ++i)
          compare(first.parameters().diffs()[i], second.parameters().diffs()[i]);
      }
  });
}

// Convolutions, normalized and rectified, of two levels with a skip: several readers of most
// tensors, gradients in the place of others, gradients that are added.
SmallNetwork normalized_network() {
  Model model({2, 12, 8, 6});
  const auto block = [&](const std::string& name, std::int64_t filters, std::int64_t stride,
                         std::size_t src) {
    const WindowOptions window = WindowOptions::cube(3, stride, PaddingKind::kSame);
    const auto x =
        model.add(name, std::make_unique<Convolution>(ConvolutionOptions{filters, window}), {src});
    const auto moments = model.add(name + "_moments", std::make_unique<Moments>(), {x});
    const auto y = model.add(name + "_norm", std::make_unique<Normalize>(1e-5F), {x, moments});
    return model.add(name + "_act",
                     std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.5F)), {y});
  };
  const std::size_t fine = block("second", 3, 1, block("first", 2, 1, 0));
  TransposedConvolutionOptions larger;
  larger.filters = 2;
  larger.window = WindowOptions::cube(2, 2, PaddingKind::kValid);
  const auto up = model.add("larger", std::make_unique<TransposedConvolution>(larger),
                            {block("coarse", 4, 2, fine)});
  const auto both = model.add("both", std::make_unique<Concat>(), {up, fine});
  const auto last = block("third", 2, 1, both);
  const auto sum = model.add("sum", std::make_unique<Add>(), {last, block("side", 2, 1, both)});
  const auto scaled = model.add("affine", std::make_unique<Affine>(), {sum});
  model.add("dropped", std::make_unique<Dropout>(0.5), {scaled});
  return {"normalized", std::move(model), 0, 1};
}

// Output and gradients of two runs of the same parts.
void compare_bits(NetworkRun& run, NetworkRun& expected, const std::string& where,
                  Findings& findings) {
  const auto compare = [&](float got, float want, const char* what) {
    findings.expect_equal(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want),
                          where + what);
  };
  const ConstView a = run.executor().output(), b = expected.executor().output();
  const Box& owned =
      run.geometry().tensors().back().owned[static_cast<std::size_t>(run.mesh().part())];
  for_each_element(run.local_batch(), owned, [&](auto n, auto c, auto d, auto h, auto w) {
    compare(a.at(n, c, d, h, w), b.at(n, c, d, h, w), ": output");
  });
  for (std::size_t i = 0; i < run.parameters().diffs().size(); ++i)
    compare(run.parameters().diffs()[i], expected.parameters().diffs()[i], ": gradient");
}

TEST_CASE("chunks in either order give the same bits") {
  for_comms("orders of chunks", {2, 4, 6}, [](const Comm& comm, Findings& findings) {
    std::int64_t changed = 0;
    for (const auto make : small_networks())
      for (const PartGrid& grid : grids_of(comm.size())) {
        SmallNetwork network = make(), other = make();
        other.model.set_chunk_order(ChunkOrder::kBoundaryFirst);
        const ModelGeometry geometry = network.model.geometry(grid);
        const auto part = static_cast<std::size_t>(comm.rank());
        for (std::size_t l = 0; l < geometry.layers().size(); ++l)
          if (chunks_of(network.model, geometry, l, part) !=
              chunks_of(other.model, geometry, l, part))
            ++changed;
        NetworkRun local_first(comm, {1, grid}, std::move(network.model), 2, real_values());
        NetworkRun boundary_first(comm, {1, grid}, std::move(other.model), 2, real_values());
        for (int step = 0; step < 2; ++step) {
          local_first.step();
          boundary_first.step();
          compare_bits(boundary_first, local_first,
                       fmt::format("{} on {}", network.name, to_string(grid)), findings);
        }
      }
    findings.expect(comm.max(changed) > 0, [] { return std::string("no order differs"); });
  });
}

// What memory holds before a step does not matter, and tensors in one arena give the bits of
// tensors in memory of their own: NaNs would spread. Messages leave as late as they may.
TEST_CASE("memory that tensors share gives the step of memory of their own, bit for bit") {
  for_comms("shared memory", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    std::vector<SmallNetwork (*)()> networks = small_networks();
    networks.push_back(&normalized_network);
    std::int64_t held = 0, batch = 1;
    for (const auto make : networks)
      for (const PartGrid& grid : grids_of(comm.size())) {
        batch = 3 - batch;
        NetworkRun apart(comm, {1, grid}, make().model, batch, real_values(), MemoryUse::kApart);
        apart.step();
        for (const MemoryUse use : {MemoryUse::kShared, MemoryUse::kRecomputed}) {
          NetworkRun run(comm, {1, grid}, make().model, batch, real_values(), use);
          const std::span<std::byte> memory = run.executor().memory();
          std::fill(memory.begin(), memory.end(), std::byte{0xFF});
          const LateSends late;
          run.step();
          held += late.held();
          compare_bits(run, apart,
                       fmt::format("{} on {}, batch {}, {}", make().name, to_string(grid), batch,
                                   use == MemoryUse::kShared ? "shared" : "recomputed"),
                       findings);
          const std::size_t most = apart.executor().memory().size();
          findings.expect(most == 0 || memory.size() < most,
                          [&] { return make().name + ": nothing is shared"; });
        }
      }
    findings.expect(comm.size() == 1 || held > 0, [] { return std::string("no late sends"); });
  });
}

TEST_CASE("the memory predicted for a part is what the objects of a step take") {
  for_comms("memory of parts", {1, 2, 4}, [](const Comm& comm, Findings& findings) {
    std::vector<SmallNetwork (*)()> networks = small_networks();
    networks.push_back(&normalized_network);
    std::int64_t messages = 0;
    MemorySetting setting;
    for (const auto make : networks)
      for (const PartGrid& grid : grids_of(comm.size())) {
        setting.batch = 3 - setting.batch;
        setting.mesh = {1, grid};
        const ProcessMesh mesh(comm, setting.mesh);
        setting.ranks_per_node = mesh.ranks_per_node();
        for (const MemoryUse use : {MemoryUse::kShared, MemoryUse::kRecomputed}) {
          SmallNetwork network = make(), same = make();
          const ModelGeometry geometry = network.model.geometry(grid);
          setting.use = use;
          const PartMemory predicted =
              memory_of_part(same.model, geometry, mesh.part(), nullptr, setting);
          messages += predicted.exchanges + predicted.sums;
          const CountedMemory counted;
          Parameters parameters(geometry, mesh.part());
          const Executor executor(mesh.group(), network.model, geometry, parameters, setting.batch,
                                  true, nullptr, use);
          const GradientReducer reducer(mesh, geometry, parameters);
          findings.expect_equal(
              predicted.total() - predicted.program - predicted.input, counted.bytes(),
              fmt::format("{} on {}, batch {}", network.name, to_string(grid), setting.batch));
        }
      }
    findings.expect(comm.size() == 1 || messages > 0, [] { return std::string("no messages"); });
  });
}

// A copy that counts, backward, the elements of its input that are no longer those of its output,
// and in how many calls.
class Watching final : public Pointwise {
 public:
  Watching(std::int64_t& lost, std::int64_t& calls) : lost_(lost), calls_(calls) {}
  bool backward_reads_src() const override { return true; }
  bool backward_reads_dst() const override { return true; }
  void forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override {
    std::vector<float> values(static_cast<std::size_t>(dst.batch * chunk.volume()));
    pack(src[0].as<float>(), chunk, values.data());
    unpack_copy(values.data(), chunk, dst.as<float>());
  }
  void backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst, std::size_t,
                     AnyView diff_src) override {
    const Box& box = context().boxes.src_needed[0];
    const auto read = [&](AnyConstView view) {
      std::vector<float> dense(static_cast<std::size_t>(view.batch * box.volume()));
      pack(view.as<float>(), box, dense.data());
      return dense;
    };
    const std::vector<float> diff = read(diff_dst);
    unpack_copy(diff.data(), box, diff_src.as<float>());
    const std::vector<float> src = read(values.src[0]), dst = read(values.dst);
    for (std::size_t i = 0; i < src.size(); ++i) lost_ += src[i] != dst[i];
    ++calls_;
  }

 private:
  std::int64_t &lost_, &calls_;
};

TEST_CASE("the input of a layer that reads it backward outlives the gradient") {
  for_comms("values that are read again", {1, 2}, [](const Comm& comm, Findings& findings) {
    std::int64_t lost = 0, calls = 0;
    Model model({2, 6, 4, 4});
    model.add("first", std::make_unique<Convolution>(
                           ConvolutionOptions{3, WindowOptions::cube(3, 1, PaddingKind::kSame)}));
    for (const char* name : {"second", "third"})
      model.add(name, std::make_unique<Watching>(lost, calls));
    NetworkRun run(comm, {1, {comm.size(), 1, 1}}, std::move(model), 2, real_values());
    run.step();
    findings.expect_equal(calls, std::int64_t{2}, "layers that looked at their input");
    findings.expect_equal(lost, std::int64_t{0}, "values that were overwritten");
  });
}

}  // namespace
}  // namespace halomesh
