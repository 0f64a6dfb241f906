// SPDX-License-Identifier: Apache-2.0
// Copies the values of a sample into a block of the transformed sample.
// The only code that walks voxels under a symmetry. Must not depend on messages.
#pragma once

#include <cstddef>
#include <span>

#include "partition/samples/symmetry.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Copies the box `source` of a sample of this shape to its image under `symmetry` in `dst`, one
/// sample whose span lies in the transformed sample: values unchanged where both have one type,
/// counts (int16) as log(1+x) where `dst` is fp32. `src` spans a box that contains `source`. Runs
/// only on the calling thread, because it runs during a step.
void transform(AnyConstView src, const Box& source, const Symmetry& symmetry, const Shape& shape,
               AnyView dst);

/// Transforms in place, as transform() does. The values of the box `source`, of type `stored` and
/// dense in its order, lie one after the other in the memory of its image in `block` (where its
/// type is wider, in the first bytes of each pixel). Uses `room`, aligned for that type, as scratch
/// for source.volume() of them.
void transform_in_place(AnyView block, DataType stored, const Box& source, const Symmetry& symmetry,
                        const Shape& shape, std::span<std::byte> room);

}  // namespace halomesh
