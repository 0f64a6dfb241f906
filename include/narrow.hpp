// SPDX-License-Identifier: Apache-2.0
// Checked integer narrowing: a count passed to a library with 32-bit counts must never wrap
// silently.
#pragma once

#include <cstdint>
#include <type_traits>

#include "error.hpp"

namespace halomesh {

/// Converts between integer types; throws Error, with the caller's hint, when the value does not
/// fit.
template <class To, class From>
To narrow(From from, const char* hint = "") {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To to = static_cast<To>(from);
  if (static_cast<From>(to) != from || ((to < To{}) != (from < From{})))
    throw Error(fmt::format("integer {} does not fit {} bits", from, sizeof(To) * 8), hint);
  return to;
}

}  // namespace halomesh
