// The layout of a checkpoint file and of the directory it lies in: see checkpoint_file.hpp.
// One rank's work: knows nothing of MPI or of where parameters are held.
#include "runtime/checkpoint_file.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
constexpr std::string_view kPrefix = "step-", kSuffix = ".h5";
constexpr std::size_t kDigits = 9;
const std::string kGiveAnother =
    "delete the file to go on from the one before it, or name an older one with --resume FILE";

/// Runs `work` on a checkpoint being read; what fails gets the cure that a checkpoint has.
template <class Work>
auto reading(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.what(), kGiveAnother);
  }
}

Hdf5File opened(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Error(cat(path.string(), ": no such checkpoint"),
                "name an existing file; --resume auto takes the newest one of OUT/checkpoints");
  return reading([&] { return Hdf5File::open(path); });
}

std::string tree_name(CheckpointTree tree) {
  return tree == CheckpointTree::kParameters ? "/parameters" : "/optimizer";
}

std::string dataset_name(const std::string& tree, const ParameterPlacement& where) {
  return cat(tree, '/', where.layer_name, '/', where.geometry.name);
}

/// The extents of a parameter in the file: bias 1-D, dense weight 2-D, convolution weight 5-D.
Extents extents_of(const ParameterGeometry& geometry) {
  if (geometry.name == "bias") return {geometry.out};
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

std::string to_string(const Extents& extents) {
  std::string text;
  for (std::int64_t extent : extents) text += cat(text.empty() ? "" : "x", extent);
  return text;
}

/// The step in a checkpoint's name; -1 when this is not the name of one.
std::int64_t step_in(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() < kPrefix.size() + kDigits + kSuffix.size())
    return -1;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size() - kSuffix.size();
  std::int64_t step = -1;
  const auto [stop, error] = std::from_chars(begin, end, step);
  return error == std::errc() && stop == end && checkpoint_name(step) == name ? step : -1;
}

/// Steps of the checkpoints in a directory, ascending; none if it does not exist.
std::vector<std::int64_t> steps_in(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::int64_t step = step_in(entry->path().filename().string());
    if (step >= 0) steps.push_back(step);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(cat("cannot list ", directory.string(), ": ", error.message()),
                "check that it is a directory that may be read");
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Makes the directory and hands it on: what comes before the file in a constructor's list.
const std::filesystem::path& prepared(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw Error(cat("cannot create the directory ", directory.string(), ": ", error.message()),
                "give an --out directory that may be written to");
  remove_partial_files(directory, kPrefix);
  return directory;
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

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return cat(kPrefix, digits, kSuffix);
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  const auto steps = steps_in(directory);
  if (steps.empty()) return std::nullopt;
  return directory / checkpoint_name(steps.back());
}

void retire_checkpoints(const std::filesystem::path& directory, std::int64_t step, int keep) {
  std::error_code error;
  const auto report = [&](const char* action, const std::filesystem::path& path) {
    if (error && error != std::errc::no_such_file_or_directory)
      throw Error(cat("the checkpoint of step ", step, " is saved, but cannot ", action, ' ',
                      path.string(), ": ", error.message()),
                  "check the permissions of the directory");
  };
  std::vector<std::int64_t> steps = steps_in(directory);
  const auto later = std::upper_bound(steps.begin(), steps.end(), step);
  for (auto it = later; it != steps.end(); ++it) {
    const auto path = directory / checkpoint_name(*it);
    std::filesystem::rename(path, path.string() + ".superseded", error);
    report("rename", path);
  }
  steps.erase(later, steps.end());
  if (keep <= 0) return;
  while (steps.size() > static_cast<std::size_t>(keep)) {
    const auto path = directory / checkpoint_name(steps.front());
    std::filesystem::remove(path, error);
    report("remove", path);
    steps.erase(steps.begin());
  }
}

std::vector<OutputRows> pieces_of(const ParameterGeometry& geometry) {
  std::vector<OutputRows> pieces;
  const std::int64_t most = rows_per_piece(geometry);
  for (std::int64_t begin = 0; begin < geometry.out; begin += most)
    pieces.push_back({begin, std::min(most, geometry.out - begin)});
  return pieces;
}

CheckpointWriter::CheckpointWriter(const std::filesystem::path& directory,
                                   const ModelGeometry& geometry, const TrainingState& state)
    : target_(prepared(directory) / checkpoint_name(state.step)),
      file_(Hdf5File::create(target_.temporary_path())) {
  file_.write_attribute("/", "format", kFormat);
  file_.write_attribute("/", "step", state.step);
  file_.write_attribute("/", "epoch", state.epoch);
  file_.write_attribute("/", "samples_into_epoch", state.samples_into_epoch);
  file_.write_attribute("/", "seed", state.seed);
  file_.write_attribute("/", "written_by", state.written_by);
  write_options(file_, "/model", state.model);
  write_options(file_, "/run", state.run);
  for (CheckpointTree tree : {CheckpointTree::kParameters, CheckpointTree::kOptimizer}) {
    file_.create_group(tree_name(tree));
    for (const ParameterPlacement& where : geometry.parameters()) {
      DatasetLayout layout;
      layout.chunk = slab_of(where.geometry, {0, rows_per_piece(where.geometry)}).count;
      layout.checksum = true;
      file_.create_dataset(dataset_name(tree_name(tree), where), Hdf5Type::kFloat,
                           extents_of(where.geometry), layout);
    }
  }
}

void CheckpointWriter::write(CheckpointTree tree, const ParameterPlacement& where,
                             const OutputRows& rows, std::span<const float> block) {
  file_.write(dataset_name(tree_name(tree), where), slab_of(where.geometry, rows), block);
}

void CheckpointWriter::commit() {
  file_.close();
  target_.commit();
}

CheckpointReader::CheckpointReader(const std::filesystem::path& path) : file_(opened(path)) {
  if (!reading([&] { return file_.has_attribute("/", "format"); }))
    throw Error(cat(path.string(), ": is an HDF5 file, but not a checkpoint"),
                "name a file that a training wrote into OUT/checkpoints");
  const auto format = reading([&] { return file_.read_attribute<std::int64_t>("/", "format"); });
  require(format == kFormat,
          cat(path.string(), ": checkpoint of format ", format, "; this program reads ", kFormat),
          "use the version of the program that wrote it, or a newer one");
}

TrainingState CheckpointReader::state() const {
  return reading([&] {
    TrainingState state;
    state.step = file_.read_attribute<std::int64_t>("/", "step");
    state.epoch = file_.read_attribute<std::int64_t>("/", "epoch");
    state.samples_into_epoch = file_.read_attribute<std::int64_t>("/", "samples_into_epoch");
    state.seed = file_.read_attribute<std::uint64_t>("/", "seed");
    state.written_by = file_.read_attribute<std::string>("/", "written_by");
    state.model = read_options(file_, "/model");
    state.run = read_options(file_, "/run");
    return state;
  });
}

void CheckpointReader::refuse(const std::string& what) const {
  std::string options;
  for (const auto& [name, value] : state().model) options += cat(" --", name, ' ', value);
  throw Error(
      cat(file_.path().string(), ": checkpoint of another network: ", what),
      cat("give the model options that it was made with:",
          options.empty() ? " (it names none)" : options, "; or start anew with another --out"));
}

void CheckpointReader::require_tree(const std::string& root, const ModelGeometry& geometry) {
  std::set<std::string> known;
  for (const ParameterPlacement& where : geometry.parameters()) {
    const std::string name = dataset_name(root, where);
    const Extents expected = extents_of(where.geometry);
    known.insert(name);
    if (!file_.contains(name)) refuse(cat("it has no ", name, "; expected ", to_string(expected)));
    const Extents found = file_.extents(name);
    if (found != expected)
      refuse(cat(name, " has shape ", to_string(found), "; expected ", to_string(expected)));
  }
  const auto members = [&](const std::string& group) {
    return reading([&] { return file_.members(group); });
  };
  for (const std::string& layer : members(root))
    for (const std::string& parameter : members(cat(root, '/', layer))) {
      const std::string name = cat(root, '/', layer, '/', parameter);
      if (!known.contains(name))
        refuse(cat("it has ", name, " of shape ", to_string(file_.extents(name)),
                   ", which this network has not"));
    }
}

void CheckpointReader::require_network(const ModelGeometry& geometry, LoadWhat what) {
  require_tree(tree_name(CheckpointTree::kParameters), geometry);
  if (what == LoadWhat::kAll) require_tree(tree_name(CheckpointTree::kOptimizer), geometry);
}

void CheckpointReader::read(CheckpointTree tree, const ParameterPlacement& where,
                            const OutputRows& rows, std::span<float> block) {
  reading([&] {
    file_.read(dataset_name(tree_name(tree), where), slab_of(where.geometry, rows), block);
  });
}

TrainingState read_state(const std::filesystem::path& path) {
  return CheckpointReader(path).state();
}

}  // namespace halomesh
