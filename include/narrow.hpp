// Checked integer narrowing: libraries with 32-bit counts must never wrap silently.
#pragma once

#include <cstdint>
#include <type_traits>

#include "error.hpp"

namespace halomesh {

/// Converts between integer types; throws Error when the value does not survive the trip.
template <class To, class From>
To narrow(From from) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To to = static_cast<To>(from);
  if (static_cast<From>(to) != from || ((to < To{}) != (from < From{})))
    throw Error(cat("integer ", from, " does not fit ", sizeof(To) * 8, " bits"),
                "cut the sample into more parts or use a smaller batch");
  return to;
}

}  // namespace halomesh
