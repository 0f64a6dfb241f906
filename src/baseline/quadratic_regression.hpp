// SPDX-License-Identifier: Apache-2.0
// Least squares with a polynomial of second degree, from rows that are distributed over ranks.
// Must not depend on MPI: the caller adds up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace halomesh {

/// Rows of `width` values each, one after the other.
struct Rows {
  std::size_t width = 0;
  std::vector<double> values{};

  std::size_t count() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const double> operator[](std::size_t row) const {
    return {values.data() + row * width, width};
  }
};

/// Adds up values in place, element by element, over all holders of rows, with equal bits for each.
using AddUp = std::function<void(std::span<double>)>;

/// Predicts targets from features: the features are standardised and projected on the principal
/// components of largest variance; the prediction is a quadratic polynomial of these, with least
/// squared error and a small penalty on the squares of its coefficients (ridge).
class QuadraticRegression {
 public:
  struct Settings {
    std::size_t components = 14;  ///< at most as many as there are features
    double ridge = 0.1;
  };

  /// Fits the polynomial to all rows of all callers, `features` and `targets` row by row.
  /// Collective over the ranks that `add_up` covers. Throws Error if there is no row at all or the
  /// equations have no solution, as with values that are not finite.
  QuadraticRegression(const Rows& features, const Rows& targets, const AddUp& add_up,
                      const Settings& settings);

  /// The predicted targets of one row of features.
  std::vector<double> predict(std::span<const double> features) const;

 private:
  std::vector<double> terms_of(std::span<const double> features) const;

  std::vector<double> mean_, deviation_;
  Rows components_;    ///< one row per component, with a value per feature
  Rows coefficients_;  ///< one row per target, with a value per term
};

}  // namespace halomesh
