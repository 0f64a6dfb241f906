// SPDX-License-Identifier: Apache-2.0
// The passes of steps that accumulate gradients over several smaller batches.
#pragma once

#include <cstdint>

#include "partition/samples/sample_order.hpp"

namespace halomesh {

/// The samples of `steps` with each step cut into `passes` steps: pass k of a step has the places k
/// * m to (k + 1) * m of every replica, m = local_batch / passes. Throws Error unless `passes`
/// divides the local batch and the last step is whole.
BatchSchedule in_passes(const BatchSchedule& steps, std::int64_t passes);

}  // namespace halomesh
