// SPDX-License-Identifier: Apache-2.0
// Volumes with labels from a stage: see staged_volumes.hpp.
#include "runtime/load/staged_volumes.hpp"

#include <optional>
#include <utility>

#include "narrow.hpp"
#include "runtime/mpi/box_type.hpp"

namespace halomesh {

StagedVolumes::StagedVolumes(const ProcessMesh& mesh, StagedSamples samples, StagedSamples labels,
                             StagedSplit split, const BatchSpec& spec, const StagedCrops& crops)
    : mesh_(mesh),
      comm_(mesh.world().dup()),
      owners_(split.owners),
      label_samples_(std::move(labels)),
      labels_(std::move(split.labels.value())),
      windows_(mesh, std::move(samples),
               StagedSplit{split.owners, std::move(split.file), {}, {}, {}}, spec, {}, &crops) {}

AnyConstView StagedVolumes::labels(std::int64_t volume,
                                   const std::function<Box(int rank)>& wanted) {
  const SampleOwners::Owner owner = owners_.of(volume);
  const StagedSample sample = label_samples_.of(volume);
  const Box mine = wanted(comm_.rank());
  received_->resize(static_cast<std::size_t>(mine.volume()));
  const AnyView view{received_->data(), DataType::kUint8, mine, 1};
  Requests requests;
  for (std::int64_t part = 0; part < mesh_.shape().parts.count(); ++part)
    if (const Box piece = intersect(sample.blocks[static_cast<std::size_t>(part)], mine);
        !piece.empty())
      mpi_check(MPI_Irecv(view.data, 1, BoxType(mine, piece, 1).get(),
                          narrow<int>(mesh_.shape().rank_of(owner.replica, part)), 0,
                          comm_.handle(), requests.add()));
  const Box& kept = sample.blocks[static_cast<std::size_t>(mesh_.part())];
  if (owner.replica == mesh_.replica() && !kept.empty()) {
    if (labels_->codec() != StageCodec::kNone)
      room_->resize(static_cast<std::size_t>(kept.volume()));
    const AnyConstView block{labels_->read(owner.slot, *room_).data(), DataType::kUint8, kept, 1};
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (const Box piece = intersect(kept, wanted(rank)); !piece.empty())
        mpi_check(MPI_Isend(block.data, 1, BoxType(kept, piece, 1).get(), rank, 0, comm_.handle(),
                            requests.add()));
  }
  requests.wait_all();
  return view;
}

}  // namespace halomesh
