// SPDX-License-Identifier: Apache-2.0
// The command `predict`: a checkpoint's predictions for a data set, as CSV or HDF5. Writes the
// output files; the pass itself is in runtime/step/evaluator.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <utility>
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

/// Values of all samples, as many of each as there are titles.
struct PredictedValues {
  const char* kind = "";
  std::vector<std::string> titles{};  // without any, numbers from 0
  std::vector<float> values{};

  std::size_t width(std::size_t samples) const {
    return samples == 0 ? 0 : values.size() / samples;
  }
};

/// Predictions of samples in any order.
struct Predictions {
  std::vector<std::int64_t> samples{};
  std::vector<std::string> names{};  // one for each sample
  std::vector<PredictedValues> all{{"predicted"}, {"probability"}, {"target"}};

  void add(std::int64_t sample, std::initializer_list<std::span<const float>> values) {
    samples.push_back(sample);
    auto to = all.begin();
    for (const auto of_kind : values) {
      to->values.insert(to->values.end(), of_kind.begin(), of_kind.end());
      ++to;
    }
  }
  /// Brings them into the order of samples.
  void sort() {
    std::vector<std::size_t> order(samples.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return samples[a] < samples[b]; });
    for (PredictedValues& kind : all) {
      const std::size_t width = kind.width(samples.size());
      const std::vector<float> before = std::exchange(kind.values, {});
      for (const std::size_t i : order)
        kind.values.insert(kind.values.end(), &before[i * width], &before[i * width] + width);
    }
    std::sort(samples.begin(), samples.end());
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
  Predictions found;
  found.samples = gather(world, mine.samples);
  for (std::size_t kind = 0; kind < found.all.size(); ++kind)
    found.all[kind].values = gather(world, mine.all[kind].values);
  found.sort();
  return found;
}

/// A cell of CSV (RFC 4180).
std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string all = "\"";
  for (const char c : cell) all.append(c == '"' ? 2 : 1, c);
  return all + '"';
}

/// The CSV text. Classes of samples also have a column with the name of the class.
std::string as_csv(const Predictions& p, const std::vector<std::string>& classes) {
  const std::size_t samples = p.samples.size();
  std::ostringstream text;
  text.precision(9);
  text << "sample,name" << (classes.empty() ? "" : ",class");
  for (const PredictedValues& kind : p.all)
    for (std::size_t t = 0; t < kind.width(samples); ++t)
      text << ','
           << quoted(fmt::format("{}_{}", kind.kind,
                                 kind.titles.empty() ? std::to_string(t) : kind.titles[t]));
  text << '\n';
  for (std::size_t i = 0; i < samples; ++i) {
    text << p.samples[i] << ',' << quoted(p.names[i]);
    if (!classes.empty())
      text << ',' << quoted(classes[static_cast<std::size_t>(p.all.front().values[i])]);
    for (const PredictedValues& kind : p.all)
      for (std::size_t t = 0; t < kind.width(samples); ++t)
        text << ',' << kind.values[i * kind.width(samples) + t];
    text << '\n';
  }
  return text.str();
}

void write_hdf5(const std::filesystem::path& path, const Predictions& p) {
  AtomicFile target(path, AtomicFile::Writers::kSeveral);
  {
    Hdf5File file = Hdf5File::create(target.temporary_path());
    const auto rows = static_cast<std::int64_t>(p.samples.size());
    const auto add = [&file](const std::string& name, const Extents& extents, auto values) {
      using Value = typename decltype(values)::value_type;
      file.create_dataset(name, hdf5_type<Value>(), extents);
      file.write(name, Slab::whole(extents), values);
    };
    add("/sample", {rows}, std::span<const std::int64_t>(p.samples));
    file.write_texts("/name", p.names);
    for (const PredictedValues& kind : p.all) {
      if (kind.values.empty()) continue;
      const auto path_in = fmt::format("/{}", kind.kind);
      add(path_in, {rows, static_cast<std::int64_t>(kind.width(p.samples.size()))},
          std::span<const float>(kind.values));
      if (!kind.titles.empty()) file.write_attribute(path_in, "names", joined(kind.titles, ","));
    }
    file.close();
  }
  target.commit();
}

/// The most probable class, or of each output whether it is more probable than not.
std::vector<float> predicted_labels(std::span<const float> outputs, const Loss& loss) {
  if (!loss.takes_yes_or_no())
    return {static_cast<float>(std::max_element(outputs.begin(), outputs.end()) - outputs.begin())};
  std::vector<float> labels;
  for (const float output : outputs) labels.push_back(output > 0 ? 1.0F : 0.0F);
  return labels;
}

/// Writes the predictions of a network of numbers, or of classes of samples, as .csv or .h5.
Evaluation predict_numbers(const Comm& world, const Options& options,
                           CheckpointEvaluation& evaluation, const std::filesystem::path& out) {
  Predictions mine;
  const Loss& loss = evaluation.loss();
  const bool has_truth = evaluation.data().has_truth();
  Evaluation result = evaluation.run(
      [&](std::span<const std::int64_t> samples, ConstView output, AnyConstView targets) {
        const auto width = static_cast<std::size_t>(output.sample_volume());
        const auto expected =
            static_cast<std::size_t>(has_truth ? targets.as<float>().sample_volume() : 0);
        for (std::size_t i = 0; i < samples.size(); ++i) {
          const std::span<const float> outputs(output.data + i * width, width);
          std::vector<float> predicted(width), probabilities;
          if (loss.sample_classes() > 0) {
            predicted = predicted_labels(outputs, loss);
            probabilities.assign(outputs.begin(), outputs.end());
            loss.to_probabilities(probabilities);
          } else {
            to_targets(loss.target_scales(), output.span.lo[kC], outputs, predicted);
          }
          mine.add(samples[i], {predicted, probabilities,
                                std::span(targets.as<float>().data + i * expected, expected)});
        }
      });
  Predictions all = gather_sorted(world, mine);
  for (const std::int64_t sample : world.rank() == 0 ? all.samples : std::vector<std::int64_t>())
    all.names.push_back(evaluation.data().name(sample));
  std::vector<std::string> classes;
  PredictedValues &predicted = all.all[0], &probabilities = all.all[1];
  if (loss.sample_classes() > 0) {
    const LabelNames names = label_names(world, options, evaluation.network(), loss);
    predicted.titles = names.labels;
    probabilities.titles = loss.takes_yes_or_no() ? names.labels : names.classes;
    if (!loss.takes_yes_or_no()) classes = names.classes;
  } else {
    predicted.titles =
        target_names(world, options, evaluation.network(), predicted.width(all.samples.size()));
  }
  all.all[2].titles = predicted.titles;
  if (world.rank() == 0 && out.extension() == ".csv")
    write_file_atomically(out, as_csv(all, classes));
  else if (world.rank() == 0)
    write_hdf5(out, all);
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
  if (options.get<std::string>("checkpoint").empty() && options.get<std::string>("network").empty())
    throw UsageError("--checkpoint is missing", "give it, or --network and an array");
  if (reads_array(options)) return predict_array(world, options);
  const std::filesystem::path out = options.get<std::string>("out");
  if (out.has_extension())
    check_output_file(world, options, "out");
  else  // a directory, made later
    check_output(world, options, "out");
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
    throw UsageError(fmt::format("--probabilities: the network {} does not classify voxels",
                                 network.network->name),
                     "leave it out; probabilities of classes of samples are always written");
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
