// SPDX-License-Identifier: Apache-2.0
// The layout of a checkpoint file: see checkpoint_file.hpp.
#include "runtime/train/checkpoint_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "elided.hpp"
#include "error.hpp"
#include "joined.hpp"
#include "runtime/posix/crc32c.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/train/checkpoint_directory.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
constexpr const char* kChecksum = "crc32c";
constexpr const char* kGiveCheckpoint =
    "give a checkpoint of halomesh: training writes OUT/checkpoints/step-NNNNNNNNN.h5";

// Checksums cover the bytes as the file stores them.
static_assert(std::endian::native == std::endian::little);

[[noreturn]] void refuse_damaged(const std::filesystem::path& path, const std::string& what) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown)  // the run that made it has removed it
    throw Error(fmt::format("{}: no such checkpoint", path.string()), kGiveCheckpoint);
  std::string hint = "restore it, or use another checkpoint";
  for (const auto& other : checkpoints_in(path.parent_path()))
    if (other.filename() < path.filename()) {
      hint += fmt::format(", such as {}", other.string());
      break;
    }
  throw DamagedCheckpoint(fmt::format("{}: damaged checkpoint: {}", path.string(), what), hint);
}

/// Runs `work` on a checkpoint being read, and reports errors of the library as damage, except
/// errors of reading itself.
template <class Work>
auto reading(const std::filesystem::path& path, Work work) {
  try {
    return work();
  } catch (const ReadError&) {
    throw;
  } catch (const Error& error) {
    std::string what = error.what();
    const std::string prefix = path.string() + ": ";
    if (what.starts_with(prefix)) what.erase(0, prefix.size());
    refuse_damaged(path, what);
  }
}

const char* name_of(std::filesystem::file_type type) {
  using Type = std::filesystem::file_type;
  switch (type) {
    case Type::directory:
      return "a directory";
    case Type::character:
    case Type::block:
      return "a device";
    case Type::fifo:
      return "a FIFO";
    case Type::socket:
      return "a socket";
    default:
      return "of an unknown type";
  }
}

/// Throws Error unless this is a regular file that may be read.
void require_readable_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Error(fmt::format("{}: no such checkpoint", path.string()), kGiveCheckpoint);
  if (std::filesystem::is_directory(status)) {
    const auto nested = path / "checkpoints";
    const auto newest =
        latest_checkpoint(std::filesystem::is_directory(nested, error) ? nested : path);
    throw Error(fmt::format("{}: is a directory, not a checkpoint", path.string()),
                newest
                    ? fmt::format("give one of its checkpoints; the newest is {}", newest->string())
                    : std::string(kGiveCheckpoint));
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(fmt::format("{}: is {}, not a checkpoint", path.string(), name_of(status.type())),
                kGiveCheckpoint);
  if (error || ::access(path.c_str(), R_OK) != 0)
    throw ReadError(fmt::format("cannot read {}: {}", path.string(),
                                error ? error.message() : std::strerror(errno)),
                    path_hint(error ? error.value() : errno,
                              "check its permissions and those of its directory"));
}

Hdf5File opened(const std::filesystem::path& path) {
  require_readable_file(path);
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  const std::string head = read_head(path, kSignature.size());
  if (head.empty()) refuse_damaged(path, "the file is empty");
  if (head != kSignature)
    throw DamagedCheckpoint(fmt::format("{}: not a checkpoint: not an HDF5 file", path.string()),
                            kGiveCheckpoint);
  return reading(path, [&] { return Hdf5File::open(path); });
}

std::string dataset_name(const std::string& tree, const ParameterPlacement& where) {
  return fmt::format("/{}/{}/{}", tree, where.layer_name, where.geometry.name);
}

/// The extents of a parameter in the file: bias and parameters of norms 1-D, dense weight 2-D,
/// convolution weight 5-D.
Extents extents_of(const ParameterGeometry& geometry) {
  if (geometry.name == "bias" || geometry.fan_in == 0) return {geometry.out};
  if (geometry.channels_last) return {geometry.out, geometry.in.volume()};
  return {geometry.out, geometry.in.c, geometry.in.d, geometry.in.h, geometry.in.w};
}

std::int64_t rows_per_piece(const ParameterGeometry& geometry) {
  const std::int64_t row_bytes = geometry.in.volume() * std::int64_t{sizeof(float)};
  return std::clamp<std::int64_t>(kPieceBytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                  std::max<std::int64_t>(geometry.out, 1));
}

Slab slab_of(const ParameterGeometry& geometry, const OutputRows& rows) {
  Slab slab = Slab::whole(extents_of(geometry));
  slab.offset.front() = rows.begin;
  slab.count.front() = rows.count;
  return slab;
}

std::string to_string(const Extents& extents) { return joined(extents, "x"); }

std::uint32_t checksum_of(const TrainingState& state) {
  const std::string text = to_text(state);
  return crc32c(std::as_bytes(std::span(text)));
}

const float* first_not_finite(std::span<const float> values) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return bad == values.end() ? nullptr : &*bad;
}

void write_options(Hdf5File& file, const std::string& group,
                   const std::map<std::string, std::string>& options) {
  file.create_group(group);
  for (const auto& [name, value] : options) file.write_attribute(group, name, value);
}

std::map<std::string, std::string> read_options(const Hdf5File& file, const std::string& group) {
  std::map<std::string, std::string> options;
  for (const std::string& name : file.attribute_names(group))
    options[name] = file.read_attribute<std::string>(group, name);
  return options;
}

}  // namespace

std::vector<OutputRows> pieces_of(const ParameterGeometry& geometry) {
  std::vector<OutputRows> pieces;
  const std::int64_t most = rows_per_piece(geometry);
  for (std::int64_t begin = 0; begin < geometry.out; begin += most)
    pieces.push_back({begin, std::min(most, geometry.out - begin)});
  return pieces;
}

CheckpointWriter::CheckpointWriter(const std::filesystem::path& directory,
                                   const ModelGeometry& geometry, const CheckpointTrees& trees,
                                   const TrainingState& state)
    : target_(prepare_checkpoint_directory(directory) / checkpoint_name(state.step)),
      file_(Hdf5File::create(target_.temporary_path())) {
  file_.write_attribute("/", "format", kFormat);
  file_.write_attribute("/", "step", state.step);
  file_.write_attribute("/", "epoch", state.epoch);
  file_.write_attribute("/", "samples_into_epoch", state.samples_into_epoch);
  file_.write_attribute("/", "seed", state.seed);
  file_.write_attribute("/", "written_by", state.written_by);
  file_.write_attribute("/", kChecksum, checksum_of(state));
  write_options(file_, "/model", state.model);
  write_options(file_, "/run", state.run);
  for (const std::string& tree : trees) {
    file_.create_group("/" + tree);
    for (const ParameterPlacement& where : geometry.parameters()) {
      DatasetLayout layout;
      layout.chunk = slab_of(where.geometry, {0, rows_per_piece(where.geometry)}).count;
      layout.checksum = true;
      file_.create_dataset(dataset_name(tree, where), Hdf5Type::kFloat, extents_of(where.geometry),
                           layout);
    }
  }
}

void CheckpointWriter::write(const std::string& tree, const ParameterPlacement& where,
                             const OutputRows& rows, std::span<const float> block) {
  const std::string name = dataset_name(tree, where);
  if (const float* const bad = first_not_finite(block); bad != nullptr)
    throw Error(
        fmt::format("{} is not written: {} has a value of {}", target_.path().string(), name, *bad),
        "training diverges: lower --lr or lengthen the warm-up; resume from a checkpoint "
        "before this step");
  file_.write(name, slab_of(where.geometry, rows), block);
  std::uint32_t& checksum = checksums_[name];
  checksum = crc32c(std::as_bytes(block), checksum);
}

void CheckpointWriter::commit() {
  for (const auto& [name, checksum] : checksums_) file_.write_attribute(name, kChecksum, checksum);
  file_.close();
  target_.commit();
}

CheckpointReader::CheckpointReader(const std::filesystem::path& path) : file_(opened(path)) {
  if (!reading(path, [&] { return file_.has_attribute("/", "format"); }))
    throw DamagedCheckpoint(
        fmt::format("{}: not a checkpoint: an HDF5 file of another program", path.string()),
        kGiveCheckpoint);
  const auto format =
      reading(path, [&] { return file_.read_attribute<std::int64_t>("/", "format"); });
  require(
      format == kFormat,
      text("{}: checkpoint of format {}; this program reads {}", path.string(), format, kFormat),
      "use the version of the program that wrote it, or a newer one");
  reading(path, [&] {
    state_.step = file_.read_attribute<std::int64_t>("/", "step");
    state_.epoch = file_.read_attribute<std::int64_t>("/", "epoch");
    state_.samples_into_epoch = file_.read_attribute<std::int64_t>("/", "samples_into_epoch");
    state_.seed = file_.read_attribute<std::uint64_t>("/", "seed");
    state_.written_by = file_.read_attribute<std::string>("/", "written_by");
    state_.model = read_options(file_, "/model");
    state_.run = read_options(file_, "/run");
    has_checksums_ = file_.has_attribute("/", kChecksum);
    require(!has_checksums_ ||
                file_.read_attribute<std::uint32_t>("/", kChecksum) == checksum_of(state_),
            "the checksum of its attributes does not match");
    require(state_.step >= 0 && state_.epoch >= 0 && state_.samples_into_epoch >= 0,
            text("step {}, epoch {}, {} samples into it", state_.step, state_.epoch,
                 state_.samples_into_epoch));
  });
}

void CheckpointReader::refuse(const std::string& what) const {
  std::string options;
  for (const auto& [name, value] : state_.model)
    options += fmt::format(" --{} {}", name, elided(value));
  throw Error(fmt::format("{}: checkpoint of another network: {}", file_.path().string(), what),
              fmt::format("give the model options that it was made with:{}; or train from scratch "
                          "with another --out",
                          options.empty() ? " (it names none)" : options));
}

void CheckpointReader::require_tree(const std::string& tree, const ModelGeometry& geometry,
                                    bool may_have_more) {
  const std::string root = "/" + tree;
  std::set<std::string> known;
  for (const ParameterPlacement& where : geometry.parameters()) {
    const std::string name = dataset_name(tree, where);
    const Extents expected = extents_of(where.geometry);
    known.insert(name);
    if (!reading(file_.path(), [&] { return file_.contains(name); }))
      refuse(fmt::format("it has no {}; expected {}", name, to_string(expected)));
    const Extents found = reading(file_.path(), [&] { return file_.extents(name); });
    if (found != expected)
      refuse(
          fmt::format("{} has shape {}; expected {}", name, to_string(found), to_string(expected)));
  }
  if (may_have_more) return;
  const auto members = [&](const std::string& group) {
    return reading(file_.path(), [&] { return file_.members(group); });
  };
  for (const std::string& layer : members(root))
    for (const std::string& parameter : members(fmt::format("{}/{}", root, layer))) {
      const std::string name = fmt::format("{}/{}/{}", root, layer, parameter);
      if (!known.contains(name))
        refuse(fmt::format("it has {} of shape {}, which this network does not have", name,
                           to_string(file_.extents(name))));
    }
}

bool CheckpointReader::has(const std::string& tree) {
  return reading(file_.path(), [&] { return file_.contains("/" + tree); });
}

void CheckpointReader::require_network(const ModelGeometry& geometry, const CheckpointTrees& trees,
                                       bool may_have_more) {
  for (const std::string& tree : trees) {
    if (tree != trees.front() && !has(tree)) refuse_optimizer(tree);
    require_tree(tree, geometry, may_have_more);
  }
}

void CheckpointReader::refuse_optimizer(const std::string& tree) const {
  const auto recorded = state_.run.find("optimizer");
  // Older versions have only one optimizer and do not record it.
  const std::string name = recorded == state_.run.end() ? "sgd" : recorded->second;
  throw Error(
      fmt::format("{}: checkpoint of another optimizer: written with --optimizer {}, it has "
                  "no /{}",
                  file_.path().string(), name, tree),
      fmt::format("give --optimizer {} to resume, or start from its parameters with "
                  "--init-from FILE and another --out",
                  name));
}

void CheckpointReader::read(const std::string& tree, const ParameterPlacement& where,
                            const OutputRows& rows, std::span<float> block) {
  const std::string name = dataset_name(tree, where);
  reading(file_.path(), [&] { file_.read(name, slab_of(where.geometry, rows), block); });
  checksum_ = crc32c(std::as_bytes(block), rows.begin == 0 ? 0 : checksum_);
  if (rows.begin + rows.count == where.geometry.out && has_checksums_) verify_checksum(name);
  if (const float* const bad = first_not_finite(block); bad != nullptr)
    refuse_damaged(file_.path(), fmt::format("{} has a value of {}", name, *bad));
}

void CheckpointReader::verify_checksum(const std::string& dataset) {
  const auto stored = reading(
      file_.path(), [&] { return file_.read_attribute<std::uint32_t>(dataset, kChecksum); });
  if (stored != checksum_)
    refuse_damaged(file_.path(), fmt::format("the checksum of {} does not match", dataset));
}

TrainingState read_state(const std::filesystem::path& path) {
  return CheckpointReader(path).state();
}

}  // namespace halomesh
