// SPDX-License-Identifier: Apache-2.0
// The options of the command scaling, declared separately so that jobscript can check them.
#pragma once

#include "src/apps/options/options.hpp"

namespace halomesh {

/// The network's options and those of the study.
Options scaling_options();

}  // namespace halomesh
