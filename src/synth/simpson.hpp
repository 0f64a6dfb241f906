// SPDX-License-Identifier: Apache-2.0
// Composite Simpson quadrature of a smooth function.
// The caller chooses variable and intervals so that the integrand is smooth.
#pragma once

namespace halomesh {

/// The integral of f over [lo, hi] with `intervals` (even, > 0) equal steps; the error falls as the
/// fourth power of the step.
template <class Function>
double simpson(const Function& f, double lo, double hi, int intervals) {
  const double step = (hi - lo) / intervals;
  double sum = f(lo) + f(hi);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * f(lo + i * step);
  return sum * step / 3;
}

}  // namespace halomesh
