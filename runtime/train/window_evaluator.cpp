// SPDX-License-Identifier: Apache-2.0
// Sliding windows over volumes: see window_evaluator.hpp.
#include "runtime/train/window_evaluator.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "error.hpp"
#include "narrow.hpp"
#include "partition/partition.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/nonblocking_any.hpp"
#include "runtime/step/part_sums.hpp"

namespace halomesh {
namespace {

/// The windows that all replicas compute in one step: [first, end), replica by replica.
struct WindowsOfStep {
  std::int64_t first = 0, end = 0, local_batch = 1;
};

/// Weighted sums of outputs on the slabs of one volume.
class SlabSums {
 public:
  /// `blocks` are the parts' blocks of a window's output, and `volume` is the shape of the whole
  /// output.
  SlabSums(const ProcessMesh& mesh, const SlidingWindows& windows, std::vector<Box> blocks,
           const Shape& volume)
      : mesh_(mesh), windows_(windows), blocks_(std::move(blocks)), volume_(Box::whole(volume)) {
    sums_.resize(static_cast<std::size_t>(slab(mesh.world().rank()).volume()));
  }

  /// The whole planes that a rank of the world owns.
  Box slab(int rank) const {
    const Range planes = block_range(volume_.hi[kD], mesh_.world().size(), rank);
    return with_d_range(volume_, planes.lo, planes.hi);
  }
  /// Adds the outputs of a step; `output` has one sample for each of this rank's windows. All ranks
  /// call this in one order.
  void add(const WindowsOfStep& step, ConstView output);
  /// Divides by the sums of the weights.
  View average();

 private:
  /// A box of a window that one rank sends to another, in coordinates of the volume.
  struct Piece {
    int src = 0, dst = 0, tag = 0;
    Spatial origin{};
    Box box;
    std::size_t offset = 0;  // the offset in the buffer
  };
  std::vector<Piece> pieces_to(int dst, std::int64_t window, const WindowsOfStep& step) const;
  std::vector<Piece> pieces_from(int src, std::int64_t window, const WindowsOfStep& step) const;
  Piece piece(int src, int dst, std::int64_t window, const WindowsOfStep& step) const;
  void pack(const Piece& piece, std::int64_t n, ConstView output, float* to) const;
  void unpack(const Piece& piece, const float* from);

  const ProcessMesh& mesh_;
  const SlidingWindows& windows_;
  std::vector<Box> blocks_;
  Box volume_;
  std::vector<float> sums_;
  InFlight<std::vector<float>> buffer_;
};

SlabSums::Piece SlabSums::piece(int src, int dst, std::int64_t window,
                                const WindowsOfStep& step) const {
  const std::int64_t place = window - step.first;
  const Spatial origin = windows_.origin(window);
  const Box& block = blocks_[static_cast<std::size_t>(mesh_.shape().part_of(src))];
  const Box box = block.empty() ? Box() : intersect(shifted(block, origin), slab(dst));
  return {src, dst, narrow<int>(place % step.local_batch), origin, box, 0};
}

/// The pieces from all parts that compute the window.
std::vector<SlabSums::Piece> SlabSums::pieces_to(int dst, std::int64_t window,
                                                 const WindowsOfStep& step) const {
  std::vector<Piece> pieces;
  const std::int64_t parts = std::ssize(blocks_);
  const std::int64_t replica = (window - step.first) / step.local_batch;
  for (std::int64_t part = 0; part < parts; ++part) {
    Piece made = piece(narrow<int>(replica * parts + part), dst, window, step);
    if (!made.box.empty()) pieces.push_back(made);
  }
  return pieces;
}

/// The pieces to all ranks whose slabs the part's block reaches.
std::vector<SlabSums::Piece> SlabSums::pieces_from(int src, std::int64_t window,
                                                   const WindowsOfStep& step) const {
  std::vector<Piece> pieces;
  for (int dst = 0; dst < mesh_.world().size(); ++dst) {
    Piece made = piece(src, dst, window, step);
    if (!made.box.empty()) pieces.push_back(made);
  }
  return pieces;
}

void SlabSums::pack(const Piece& piece, std::int64_t n, ConstView output, float* to) const {
  const Box from = shifted_back(piece.box, piece.origin);
  for (std::int64_t d = from.lo[kD]; d < from.hi[kD]; ++d)
    for (std::int64_t h = from.lo[kH]; h < from.hi[kH]; ++h)
      for (std::int64_t w = from.lo[kW]; w < from.hi[kW]; ++w) {
        const float weight = windows_.weight(0, d) * windows_.weight(1, h) * windows_.weight(2, w);
        const float* const z = &output.at(n, 0, d, h, w);
        for (std::int64_t c = 0; c < from.extent(kC); ++c) *to++ = weight * z[c];
      }
}

void SlabSums::unpack(const Piece& piece, const float* from) {
  const View sums{sums_.data(), slab(mesh_.world().rank()), 1};
  const Box& box = piece.box;
  const std::int64_t row = box.extent(kW) * box.extent(kC);
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h, from += row) {
      float* const to = &sums.at(0, 0, d, h, box.lo[kW]);
      for (std::int64_t i = 0; i < row; ++i) to[i] += from[i];
    }
}

void SlabSums::add(const WindowsOfStep& step, ConstView output) {
  const int me = mesh_.world().rank();
  std::vector<Piece> outgoing, incoming;
  std::size_t size = 0;
  const auto append = [&size](std::vector<Piece>& all, std::vector<Piece> some) {
    for (Piece& p : some) {
      p.offset = size;
      size += static_cast<std::size_t>(p.box.volume());
      all.push_back(p);
    }
  };
  const std::int64_t own = step.first + mesh_.replica() * step.local_batch;
  for (std::int64_t n = 0; n < output.batch; ++n) append(outgoing, pieces_from(me, own + n, step));
  for (std::int64_t window = step.first; window < step.end; ++window)
    append(incoming, pieces_to(me, window, step));
  buffer_->resize(size);
  Requests requests;
  const MPI_Comm comm = mesh_.world().handle();
  for (const Piece& p : incoming)
    mpi_check(MPI_Irecv(buffer_->data() + p.offset, narrow<int>(p.box.volume()), MPI_FLOAT, p.src,
                        p.tag, comm, requests.add()));
  for (const Piece& p : outgoing) {
    float* const values = buffer_->data() + p.offset;
    pack(p, p.tag, output, values);
    mpi_check(MPI_Isend(values, narrow<int>(p.box.volume()), MPI_FLOAT, p.dst, p.tag, comm,
                        requests.add()));
  }
  requests.wait_all();
  for (const Piece& p : incoming) unpack(p, buffer_->data() + p.offset);
}

View SlabSums::average() {
  const View sums{sums_.data(), slab(mesh_.world().rank()), 1};
  const Box& box = sums.span;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) {
        const float total = windows_.total(0, d) * windows_.total(1, h) * windows_.total(2, w);
        float* const z = &sums.at(0, 0, d, h, w);
        for (std::int64_t c = 0; c < box.extent(kC); ++c) z[c] /= total;
      }
  return sums;
}

/// Schedules the windows of one volume in their order.
BatchSchedule schedule_of(std::int64_t volume, const SlidingWindows& windows, std::int64_t replicas,
                          std::int64_t local_batch) {
  const std::int64_t batch = replicas * local_batch;
  BatchSchedule schedule{(windows.size() + batch - 1) / batch, replicas, local_batch, {}};
  for (std::int64_t k = 0; k < windows.size(); ++k)
    schedule.uses.push_back({volume, {}, windows.origin(k)});
  return schedule;
}

/// Evaluates one volume after the other.
class WindowEvaluation {
 public:
  WindowEvaluation(const ProcessMesh& mesh, Executor& executor,
                   const std::vector<Box>& output_blocks, const WindowedVolumes& volumes)
      : mesh_(mesh),
        executor_(executor),
        output_blocks_(output_blocks),
        volumes_(volumes),
        data_(*volumes.data),
        from_files_(volumes.staged == nullptr ? file_loader() : nullptr),
        loader_(volumes.staged == nullptr ? *from_files_ : volumes.staged->windows()),
        labels_(data_.reader()),
        world_sums_(mesh.world()),
        stop_(mesh.world()) {
    append(0);
    executor_.load_parameters();
  }

  /// Adds a volume's terms on rank 0; false if it was stopped.
  bool add(std::int64_t volume, Loss& loss, const PredictionSink& sink,
           const std::function<bool()>& must_stop, std::vector<double>& terms);

 private:
  SlidingWindows windows_of(std::int64_t volume) const {
    return {data_.shape_of(volume).spatial(), volumes_.window, volumes_.placement};
  }
  void append(std::int64_t volume) {
    if (volume < data_.size())
      loader_.append(
          schedule_of(volume, windows_of(volume), mesh_.shape().replicas, volumes_.local_batch));
  }
  std::unique_ptr<Loader> file_loader() const;
  bool predict(const SlidingWindows& windows, const std::function<bool()>& must_stop,
               SlabSums& sums);
  AnyConstView labels_of(std::int64_t volume, const SlabSums& sums);

  const ProcessMesh& mesh_;
  Executor& executor_;
  const std::vector<Box>& output_blocks_;
  const WindowedVolumes& volumes_;
  const Dataset& data_;
  std::unique_ptr<Loader> from_files_;
  Loader& loader_;
  std::unique_ptr<SampleReader> labels_;
  std::vector<std::uint8_t> labels_read_;
  PartSums world_sums_;
  NonblockingAny stop_;
  std::int64_t step_ = 0;
};

std::unique_ptr<Loader> WindowEvaluation::file_loader() const {
  const Spatial& window = volumes_.window;
  return std::make_unique<DirectLoader>(
      data_.reader(),
      BatchSpec{.shape = {data_.shape().c, window[0], window[1], window[2]},
                .box = executor_.input_span(),
                .targets = {},
                .local_batch = volumes_.local_batch,
                .type = volumes_.type,
                .replica = mesh_.replica()},
      volumes_.data, volumes_.padding);
}

/// The labels of this rank's slab, valid until the next call. Collective if they are staged.
AnyConstView WindowEvaluation::labels_of(std::int64_t volume, const SlabSums& sums) {
  const auto slab_of_labels = [&sums](int rank) {
    Box slab = sums.slab(rank);
    slab.hi[kC] = slab.empty() ? 0 : 1;
    return slab;
  };
  if (volumes_.staged != nullptr) return volumes_.staged->labels(volume, slab_of_labels);
  const Box slab = slab_of_labels(mesh_.world().rank());
  labels_read_.resize(static_cast<std::size_t>(slab.volume()));
  const TensorView<std::uint8_t> targets{labels_read_.data(), slab, 1};
  if (!slab.empty()) labels_->read(volume, {}, targets);
  return AnyView(targets);
}

/// Runs the network on all windows of a volume; false if it was stopped.
bool WindowEvaluation::predict(const SlidingWindows& windows,
                               const std::function<bool()>& must_stop, SlabSums& sums) {
  const std::function<void()> poll = [&] {
    executor_.progress();
    loader_.progress();
    stop_.progress();
  };
  const std::int64_t batch = mesh_.shape().replicas * volumes_.local_batch;
  for (std::int64_t first = 0; first < windows.size(); first += batch, ++step_) {
    if (stop_.take_result()) return false;
    if (must_stop) stop_.start(must_stop());
    const Batch& input = loader_.next();
    const Pass pass{false, 0, step_, mesh_.replica() * volumes_.local_batch, &poll};
    executor_.forward(pass, input_view(input, executor_.input_span(), volumes_.local_batch));
    sums.add({first, std::min(first + batch, windows.size()), volumes_.local_batch},
             samples_of(executor_.output(), 0, input.count));
  }
  return true;
}

bool WindowEvaluation::add(std::int64_t volume, Loss& loss, const PredictionSink& sink,
                           const std::function<bool()>& must_stop, std::vector<double>& terms) {
  append(volume + 1);
  const SlidingWindows windows = windows_of(volume);
  Shape output_shape = data_.shape_of(volume);
  output_shape.c = executor_.output_shape().c;
  SlabSums sums(mesh_, windows, output_blocks_, output_shape);
  if (!predict(windows, must_stop, sums)) return false;
  const AnyConstView targets = labels_of(volume, sums);
  std::vector<double> of_sample(loss.sums_per_sample());
  const ConstView output = sums.average();
  if (!targets.span.empty()) {
    loss.add_sums(output, targets, of_sample);
    const std::array<std::int64_t, 1> number{volume};
    if (sink) sink(number, output, targets);
  }
  world_sums_.sum(of_sample);
  terms.resize(of_sample.size());
  if (mesh_.world().rank() > 0) return true;
  loss.conclude(of_sample);
  for (std::size_t k = 0; k < terms.size(); ++k) terms[k] += of_sample[k];
  return true;
}

}  // namespace

Evaluation evaluate_windows(const ProcessMesh& mesh, Executor& executor,
                            const std::vector<Box>& output_blocks,
                            const std::function<std::unique_ptr<Loss>(const Shape&)>& make_loss,
                            const WindowedVolumes& volumes, const PredictionSink& sink,
                            const std::function<bool()>& must_stop) {
  const double begin = MPI_Wtime();
  const Dataset& data = *volumes.data;
  WindowEvaluation evaluation(mesh, executor, output_blocks, volumes);
  std::unique_ptr<Loss> loss;
  std::vector<double> terms;
  for (std::int64_t volume = 0; volume < data.size(); ++volume) {
    Shape output = data.shape_of(volume);
    output.c = executor.output_shape().c;
    loss = make_loss(output);
    if (!evaluation.add(volume, *loss, sink, must_stop, terms))
      return {0, 0, 0, MPI_Wtime() - begin, true};
  }
  mesh.world().sum(terms);
  const Quality quality = loss->quality(terms);
  const double seconds = mesh.world().max(MPI_Wtime() - begin);
  return {quality.loss, quality.score,   quality.samples, seconds,
          false,        quality.targets, quality.classes, loss->score()};
}

}  // namespace halomesh
