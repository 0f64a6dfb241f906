// SPDX-License-Identifier: Apache-2.0
// Fuzz target: checkpoints as eval, predict, --resume and --init-from read them.
// The first byte of an input says how the rest becomes a file, as checksums stop blind changes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/train/checkpoint.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "runtime/train/resume_rules.hpp"
#include "test/fuzz/damaged_file.hpp"
#include "test/fuzz/odd_checkpoint.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {
namespace {

/// y = W x + b from 4 to 2 values, which is all that a checkpoint must hold here.
class Dense final : public LayerGeometry {
 public:
  Shape dst_shape(std::span<const Shape>) const override { return {2, 1, 1, 1}; }
  Box needs(const Box& dst, std::size_t, std::span<const Shape> src) const override {
    return dst.empty() ? Box{} : Box::whole(src[0]);
  }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", 2, src[0], true, 1, 1}, {"bias", 2, {1, 1, 1, 1}, true, 0, 0}};
  }
};

/// A network of one layer on one rank, and the directory its checkpoints lie in.
class Network {
 public:
  Network()
      : mesh_(scratch().world(), {1, {1, 1, 1}}),
        geometry_({4, 1, 1, 1}, {{"fc", &dense_, {0}}}, {1, 1, 1}),
        parameters_(geometry_, 0) {
    for (std::size_t i = 0; i < parameters_.values().size(); ++i) {
      parameters_.values()[i] = 1.5F + static_cast<float>(i);
      parameters_.state(0)[i] = -7.25F - static_cast<float>(i);
    }
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// The bytes of a sound checkpoint in this state.
  std::vector<std::uint8_t> save(const TrainingState& state) {
    const auto directory = scratch().path() / "sound";
    save_checkpoint(mesh_, geometry_, parameters_, state, directory, 1);
    std::ifstream file(directory / checkpoint_name(state.step), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void read(Bytes file) { read(scratch().put("new.h5", file)); }
  /// Reads a checkpoint in each way that commands do. The last of them may rename it.
  void read(const std::filesystem::path& file) {
    const std::filesystem::path directory = scratch().path() / "checkpoints";
    std::filesystem::remove_all(directory);
    std::filesystem::create_directory(directory);
    const std::filesystem::path path = directory / checkpoint_name(1);
    std::filesystem::rename(file, path);
    for (const LoadWhat what : {LoadWhat::kAll, LoadWhat::kParametersOnly})
      attempt([&] { load_checkpoint(mesh_, geometry_, parameters_, path, what); });
    attempt([&] { compare_settings(read_state(path).run, {{"lr", "0.5"}, {"batch", "8"}}, {}); });
    attempt([&] { load_latest_checkpoint(mesh_, geometry_, parameters_, directory); });
  }
  /// The parameters and what the optimizer keeps of them, each as its datasets hold it.
  std::vector<Bytes> datasets() {
    std::vector<Bytes> all;
    for (const std::span<float> memory : {parameters_.values(), parameters_.state(0)})
      for (std::size_t i = 0; i < geometry_.parameters().size(); ++i) {
        const ParameterRange& range = *parameters_.find(i);
        const auto part = std::as_bytes(memory.subspan(static_cast<std::size_t>(range.offset),
                                                       static_cast<std::size_t>(range.volume)));
        all.emplace_back(reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
      }
    return all;
  }

 private:
  Dense dense_;
  ProcessMesh mesh_;
  ModelGeometry geometry_;
  Parameters parameters_;
};

TrainingState state_of(std::string text) {
  TrainingState state{1, 2, 3, 4, {{"kernel", "2"}}, {{"batch", "64"}}, "halomesh"};
  if (text.empty()) return state;
  // Numbers first, then text that is cut in names and values.
  for (std::int64_t* const number : {&state.epoch, &state.samples_into_epoch}) {
    std::memcpy(number, text.data(), std::min(text.size(), sizeof *number));
    text.erase(0, sizeof *number);
  }
  const std::size_t third = text.size() / 3;
  state.written_by = text.substr(0, third);
  state.model["fc"] = text.substr(third, third);
  state.run[text.substr(2 * third)] = state.written_by;
  return state;
}

}  // namespace
}  // namespace halomesh::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh::fuzz;
  if (size == 0) return 0;
  static Network network;
  static const std::vector<std::uint8_t> sound = network.save(state_of({}));
  static const Chunks chunks(sound, network.datasets());
  const Bytes rest(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:  // the file as it is
      network.read(rest);
      break;
    case 1:  // a sound file, changed and cut
      network.read(damaged(sound, rest));
      break;
    case 2:  // a sound file with other values, which only the checksum of a dataset can tell
      network.read(chunks.replaced(sound, rest));
      break;
    case 3:  // a sound file of any state
      attempt([&] { network.read(network.save(state_of(std::string(as_text(rest))))); });
      break;
    default:  // a file of HDF5 with more or less of what a checkpoint has
      attempt([&] {
        write_odd_checkpoint(scratch().path() / "new.h5", rest);
        network.read(scratch().path() / "new.h5");
      });
  }
  return 0;
}
