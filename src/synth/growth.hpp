// SPDX-License-Identifier: Apache-2.0
// The linear growth of density fluctuations with time in flat LCDM.
#pragma once

namespace halomesh {

/// The linear growing mode at redshift z, normalized to D = a = 1/(1+z) deep in matter domination.
///
/// D(a) = 5/2 omega_m E(a) int_0^a da' / (a' E(a'))^3, E(a)^2 = omega_m a^-3 + 1 - omega_m:
/// Heath 1977, MNRAS 179, 351; as in Carroll, Press & Turner 1992, ARA&A 30, 499. The integral is
/// accurate to better than 1e-10. Throws Error unless 0 < omega_m <= 1 and z > -1.
double growing_mode(double omega_m, double z);

/// D(z) / D(0): 1 today, smaller in the past.
double growth_factor(double omega_m, double z);

}  // namespace halomesh
