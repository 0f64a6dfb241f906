// Batches out of what the ranks have staged: a block goes from where it is kept to where it is
// used, through memory, while the step before computes. Knows nothing of files or of layers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "partition/delivery.hpp"
#include "runtime/background_task.hpp"
#include "runtime/box_type.hpp"
#include "runtime/loader.hpp"
#include "runtime/process_mesh.hpp"
#include "runtime/stager.hpp"

namespace halomesh {

/// Every rank knows the whole course, so that sends and receives match without negotiation. The
/// samples that a step takes stay at home; a replica that takes another's sample is sent its
/// blocks, straight out of the stage where that is not compressed. For each step:
///
///   begin()    receives are posted, and sends as far as the stage is not compressed
///   gather()   own thread: verifies (and inflates) what is sent, copies or turns what is at hand
///   advance()  main thread: messages travel
///   place()    own thread: turns what has arrived
///
/// Memory: the batch in use and the batch in the making; one more while samples are turned or the
/// batches are of fp32; inflated blocks that are under way.
class StageLoader final : public Loader {
 public:
  /// Collective over mesh.world(), as is the destructor unless an exception unwinds. `sample`:
  /// what each part keeps and wants. The mesh must outlive this object.
  StageLoader(const ProcessMesh& mesh, KeptSample sample, StagedSplit split, const BatchSpec& spec);
  ~StageLoader() override;

  void append(const Course& course) override;
  const Batch& next() override;
  void progress() override;

  /// Bytes that this rank has been sent by others since construction.
  std::int64_t received_bytes() const { return received_bytes_; }

 private:
  /// What this part takes and gives of a sample under one symmetry.
  struct Route {
    std::vector<Transfer> incoming, outgoing;
    std::vector<BoxType> outgoing_types;  // within this part's kept block
  };
  struct LocalPiece {
    std::int64_t slot = 0, place = 0;
    Box box;
    Symmetry symmetry;
  };
  struct ArrivedPiece {
    std::int64_t place = 0, offset = 0;  // in arrivals_
    Box box;
    Symmetry symmetry;
  };
  struct Departure {
    std::int64_t slot = 0, place = 0;  // in the batch of its destination
    const Transfer* transfer = nullptr;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    std::int64_t replica = 0;  // of its destination
    std::size_t inflated = 0;  // where in inflated_
  };
  struct Buffer {
    Tensor data;
    std::vector<float> targets;
    std::vector<std::int64_t> samples;
    Batch batch;
  };
  enum class Phase { kIdle, kGathering, kTravelling, kPlacing, kReady };

  const Route& route(const Symmetry& symmetry);
  void begin();
  void take(const SampleUse& use, std::int64_t place, Buffer& buffer);
  void give(const SampleUse& use, std::int64_t place, std::int64_t replica);
  void send();
  void gather();
  void place_arrivals();
  void advance(bool wait);
  AnyView block_at(std::int64_t place) const;
  TensorView<const std::int16_t> kept(const std::int16_t* counts) const {
    return {counts, box(), 1};
  }
  const Box& box() const { return sample_.kept[static_cast<std::size_t>(mesh_.part())]; }

  const ProcessMesh& mesh_;
  Comm comm_;
  KeptSample sample_;
  StagedSplit split_;
  BatchSpec spec_;
  std::array<std::optional<Route>, 72> routes_;  // by the number of a symmetry; see route()

  std::deque<Course> courses_;
  std::int64_t step_ = 0;   // of the first course: the next one to begin
  std::int64_t begun_ = 0;  // steps; buffer (begun_ - 1) % 2 is in the making
  std::array<Buffer, 2> buffers_;
  Phase phase_ = Phase::kIdle;
  std::vector<LocalPiece> local_;
  std::vector<ArrivedPiece> arrived_;
  std::vector<Departure> departures_;
  AlignedBuffer<std::int16_t> arrivals_, room_;
  std::vector<AlignedBuffer<std::int16_t>> inflated_;
  std::size_t inflated_used_ = 0;
  std::int64_t received_bytes_ = 0;
  Requests receives_, sends_;  // after the buffers: they wait before those go
  BackgroundTask task_;        // last: it uses all of the above
};

}  // namespace halomesh
