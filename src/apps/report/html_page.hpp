// SPDX-License-Identifier: Apache-2.0
// A report as one HTML file.
#pragma once

#include <string>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// A self-contained document that asks nothing of the network and is complete without its script.
/// It is well-formed XML, too, whatever the texts hold. The verdict comes first, then warnings,
/// then the sections; each figure is followed by its data, of which at most 200 rows are shown.
std::string html(const Page& page);

}  // namespace halomesh
