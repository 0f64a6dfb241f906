// SPDX-License-Identifier: Apache-2.0
// A network on a mesh as a picture: one tensor cut into parts, the halo that one part receives and
// all transfers between parts, and the ranks that sum each layer's gradients. SVG, derived only
// from the geometry.
#pragma once

#include <cstdint>
#include <string>

#include "partition/mesh_shape.hpp"
#include "partition/model_geometry.hpp"

namespace halomesh {

/// Draws an SVG document that follows the light or dark scheme of its viewer and has a title and a
/// description for screen readers. Coordinates are integers, so that equal geometries give equal
/// documents on every machine. The picture shows the last tensor that is cut in space and that no
/// part needs whole: it has the widest halo relative to its extents. The first replica shows the
/// halo that `part` needs and receives, the last one every transfer. Throws UsageError for a part
/// that does not exist, for more parts than a picture can show, and for a geometry without halos.
std::string draw_picture(const ModelGeometry& geometry, const MeshShape& mesh, std::int64_t part);

}  // namespace halomesh
