// SPDX-License-Identifier: Apache-2.0
// The command `predict`: a checkpoint's predictions for a data set, as CSV or HDF5. Writes the
// output files; the pass itself is in runtime/step/evaluator.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <vector>

#include "counted.hpp"
#include "joined.hpp"
#include "printable.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/predict_array.hpp"
#include "src/apps/train/segmentation_writer.hpp"
#include "src/apps/train/target_names.hpp"

namespace halomesh {
namespace {

/// Predictions and targets of samples in any order, with `width` values each.
struct Predictions {
  std::size_t width = 0;
  bool has_truth = true;
  std::vector<std::string> names{};  // one for each sample
  std::vector<std::int64_t> samples;
  std::vector<float> predicted, expected;

  void add(std::int64_t sample, const float* prediction, const float* target) {
    samples.push_back(sample);
    predicted.insert(predicted.end(), prediction, prediction + width);
    expected.insert(expected.end(), target, target + width);
  }
};

template <class T>
std::vector<T> gather(const Comm& world, const std::vector<T>& mine) {
  std::vector<T> all;
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T));
  for (const std::string& part : world.all_gather(bytes)) {
    const std::size_t at = all.size();
    all.resize(at + part.size() / sizeof(T));
    if (!part.empty()) std::memcpy(all.data() + at, part.data(), part.size());
  }
  return all;
}

/// All ranks' predictions by ascending sample, on every rank. Collective over `world`.
Predictions gather_sorted(const Comm& world, const Predictions& mine) {
  Predictions all;
  all.width = static_cast<std::size_t>(world.max(static_cast<std::int64_t>(mine.width)));
  all.samples = gather(world, mine.samples);
  all.predicted = gather(world, mine.predicted);
  all.expected = gather(world, mine.expected);
  std::vector<std::size_t> order(all.samples.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return all.samples[a] < all.samples[b]; });
  Predictions sorted;
  sorted.width = all.width;
  for (std::size_t i : order)
    sorted.add(all.samples[i], &all.predicted[i * all.width], &all.expected[i * all.width]);
  return sorted;
}

/// A cell of CSV (RFC 4180).
std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string all = "\"";
  for (const char c : cell) all.append(c == '"' ? 2 : 1, c);
  return all + '"';
}

/// The CSV text. Columns have the targets' names or, without names, numbers from 0.
std::string as_csv(const Predictions& p, const std::vector<std::string>& names) {
  std::ostringstream text;
  text.precision(9);
  text << "sample,name";
  const auto for_each_kind = [&p](const auto& add) {
    add("predicted", p.predicted);
    if (p.has_truth) add("target", p.expected);
  };
  for_each_kind([&](const char* kind, const std::vector<float>&) {
    for (std::size_t t = 0; t < p.width; ++t)
      text << ',' << kind << '_' << (names.empty() ? std::to_string(t) : names[t]);
  });
  text << '\n';
  for (std::size_t i = 0; i < p.samples.size(); ++i) {
    text << p.samples[i] << ',' << quoted(p.names[i]);
    for_each_kind([&](const char*, const std::vector<float>& values) {
      for (std::size_t t = 0; t < p.width; ++t) text << ',' << values[i * p.width + t];
    });
    text << '\n';
  }
  return text.str();
}

void write_hdf5(const std::filesystem::path& path, const Predictions& p,
                const std::vector<std::string>& names) {
  AtomicFile target(path, AtomicFile::Writers::kSeveral);
  {
    Hdf5File file = Hdf5File::create(target.temporary_path());
    const auto rows = static_cast<std::int64_t>(p.samples.size());
    const auto width = static_cast<std::int64_t>(p.width);
    const auto add = [&file](const std::string& name, const Extents& extents, auto values) {
      using Value = typename decltype(values)::value_type;
      file.create_dataset(name, hdf5_type<Value>(), extents);
      file.write(name, Slab::whole(extents), values);
    };
    add("/sample", {rows}, std::span<const std::int64_t>(p.samples));
    add("/predicted", {rows, width}, std::span<const float>(p.predicted));
    file.write_texts("/name", p.names);
    if (p.has_truth) add("/target", {rows, width}, std::span<const float>(p.expected));
    for (const char* values : {"/predicted", "/target"})
      if (!names.empty() && file.contains(values))
        file.write_attribute(values, "names", joined(names, ","));
    file.close();
  }
  target.commit();
}

/// Writes the predictions of a network of numbers, as .csv or .h5.
Evaluation predict_numbers(const Comm& world, const Options& options,
                           CheckpointEvaluation& evaluation, const std::filesystem::path& out) {
  Predictions mine;
  Evaluation result = evaluation.run(
      [&](std::span<const std::int64_t> samples, ConstView output, AnyConstView targets) {
        mine.width = static_cast<std::size_t>(output.sample_volume());
        std::vector<float> predicted(mine.width);
        for (std::size_t i = 0; i < samples.size(); ++i) {
          to_targets(evaluation.loss().target_scales(), output.span.lo[kC],
                     {output.data + i * mine.width, mine.width}, predicted);
          mine.add(samples[i], predicted.data(), targets.as<float>().data + i * mine.width);
        }
      });
  Predictions all = gather_sorted(world, mine);
  all.has_truth = evaluation.data().has_truth();
  for (const std::int64_t sample : world.rank() == 0 ? all.samples : std::vector<std::int64_t>())
    all.names.push_back(evaluation.data().name(sample));
  const auto names = target_names(world, options, evaluation.network(), all.width);
  if (world.rank() == 0 && out.extension() == ".csv")
    write_file_atomically(out, as_csv(all, names));
  else if (world.rank() == 0)
    write_hdf5(out, all, names);
  return result;
}

/// Writes the predicted classes of voxels.
Evaluation predict_classes(const Comm& world, const Options& options,
                           CheckpointEvaluation& evaluation, const std::filesystem::path& out,
                           const SegmentationFormat& format) {
  const auto classes = static_cast<std::size_t>(evaluation.outputs());
  const auto writer =
      format.create(world, out,
                    {evaluation.data(), class_names(world, options, evaluation.network(), classes),
                     options.get<bool>("probabilities")});
  Evaluation result = evaluation.run([&](std::span<const std::int64_t> samples, ConstView output,
                                         AnyConstView) { writer->write(samples, output); });
  writer->commit();
  return result;
}

/// The format of --out. Throws UsageError if there is none.
SegmentationFormat segmentation_format(const std::filesystem::path& out,
                                       const std::string& network) {
  const auto formats = Registered<SegmentationFormat>::all();
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const auto& format) { return format.takes(out); });
  if (found != formats.end()) return *found;
  std::vector<std::string> known;
  known.reserve(formats.size());
  for (const SegmentationFormat& format : formats) known.emplace_back(format.files);
  throw UsageError(
      fmt::format("--out {}: {} predicts a class for each voxel, which cannot be written to "
                  "such a file",
                  out.string(), network),
      fmt::format("name {}", joined(known, ", or ")));
}

/// Throws UsageError unless the format of --out holds a table.
void require_table(const std::filesystem::path& out) {
  const std::string extension = out.extension().string();
  if (extension != ".csv" && extension != ".h5" && extension != ".hdf5")
    throw UsageError(fmt::format("--out {} is neither a .csv nor an .h5 file", out.string()),
                     "end the name in .csv or .h5");
}

int predict(const Comm& world, const Options& options) {
  if (reads_array(options)) return predict_array(world, options);
  if (options.get<std::string>("checkpoint").empty())
    throw UsageError("--checkpoint is missing", "give it, or --network and an array");
  const std::filesystem::path out = options.get<std::string>("out");
  if (out.has_extension())
    check_output_file(world, options, "out", {"checkpoint", "data"});
  else  // a directory, made later
    check_output(world, options, "out", {"checkpoint", "data"});
  const NetworkSpec network =
      network_spec(checkpoint_model_options(world, options.get<std::string>("checkpoint")));
  const bool segments = classifies_voxels(network);
  std::optional<SegmentationFormat> format;
  if (segments) {
    format = segmentation_format(out, std::string(network.network->name));
  } else {
    require_table(out);
  }
  if (!segments && options.get<bool>("probabilities"))
    throw UsageError(fmt::format("--probabilities: the network {} predicts numbers, not classes",
                                 network.network->name),
                     "leave it out");
  CheckpointEvaluation evaluation(world, options, false);
  const Evaluation result = segments ? predict_classes(world, options, evaluation, out, *format)
                                     : predict_numbers(world, options, evaluation, out);
  if (world.rank() == 0)
    std::cout << counted(result.samples, segments ? "segmentation" : "prediction") << " in "
              << printable(out.string())
              << (evaluation.data().has_truth()
                      ? fmt::format(", {} {:g}", title_of(result.kind), result.score)
                      : std::string())
              << std::endl;
  return kExitDone;
}

}  // namespace

int run_predict(int argc, char** argv) {
  Options options(
      "predict --checkpoint FILE --data DIR --out FILE [options]",
      "Writes a checkpoint's predictions and, where they are known, the targets of every sample, "
      "in the\norder of the samples; of a network that classifies voxels, the class of each voxel. "
      "--data may also\nname a directory of samples without splits, or one sample's file. With "
      "--out y.npy: the outputs\nof a checkpoint, or of an ONNX file, for an array.",
      "mpirun -n 4 halomesh predict --checkpoint run --data data --out predictions.csv");
  add_evaluation_options(options, false);
  options
      .add<std::string>("network", "FILE", "", "ONNX file to take the network from, for an array")
      .instead_of("checkpoint")
      .add_choice("mode", {"eval", "train"}, "eval",
                  "of an array: batch norms use running statistics, or those of the array")
      .add<std::string>("precision", "fp32|bf16", "fp32", "compute precision, for an array");
  options.add_required<std::string>(
      "out", "FILE",
      "file to write, .csv or .h5; classes of voxels: .h5, or a directory "
      "for NIfTI files");
  options.add_switch("probabilities", "also write the probability of each class at each voxel");
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return predict(world, options); });
}

}  // namespace halomesh
