// SPDX-License-Identifier: Apache-2.0
// Copies counts or labels of a sample into a block of the transformed sample.
// The only code that walks voxels under a symmetry. Must not depend on messages.
#pragma once

#include <cstdint>
#include <span>

#include "partition/samples/symmetry.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Copies the box `source` of a sample of this shape to its image under `symmetry` in `dst`, one
/// sample whose span lies in the transformed sample: labels (uint8) as they are, counts (int16) as
/// they are where it is of int16, as log(1+x) where it is of fp32. `src` spans a box that contains
/// `source`. Runs only on the calling thread, because it runs during a step.
void transform(AnyConstView src, const Box& source, const Symmetry& symmetry, const Shape& shape,
               AnyView dst);

/// Transforms in place, as transform() does: the counts of the box `source`, dense in its order,
/// lie one after the other in the memory of its image in `block` (if that is fp32: in the first
/// half of each pixel). Uses `room` as scratch for source.volume() counts.
void transform_in_place(AnyView block, const Box& source, const Symmetry& symmetry,
                        const Shape& shape, std::span<std::int16_t> room);

}  // namespace halomesh
