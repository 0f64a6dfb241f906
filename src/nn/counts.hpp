// SPDX-License-Identifier: Apache-2.0
// The logarithms that stored counts stand for, as a table.
#pragma once

#include <cstdint>
#include <span>

namespace halomesh {

/// float(log(1+x)) of every count x = 0 .. 32767, rounded once from the double logarithm: the
/// transform of the CosmoFlow benchmark.
std::span<const float, 32768> log_table();

}  // namespace halomesh
