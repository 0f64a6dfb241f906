// SPDX-License-Identifier: Apache-2.0
// Polynomial least squares: see quadratic_regression.hpp.
#include "src/baseline/quadratic_regression.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

/// A square matrix, row by row.
struct Matrix {
  std::size_t size;
  std::vector<double> values = std::vector<double>(size * size);

  double& at(std::size_t i, std::size_t j) { return values[i * size + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * size + j]; }
};

/// Turns the plane of axes p and q so that a(p, q) becomes 0; `axes` has the axes as rows.
void rotate(Matrix& a, Matrix& axes, std::size_t p, std::size_t q) {
  const double angle = 0.5 * std::atan2(2 * a.at(p, q), a.at(q, q) - a.at(p, p));
  const double c = std::cos(angle), s = std::sin(angle);
  const auto turn = [c, s](double& x, double& y) {
    const double old = x;
    x = c * old - s * y;
    y = s * old + c * y;
  };
  for (std::size_t k = 0; k < a.size; ++k) turn(a.at(p, k), a.at(q, k));
  for (std::size_t k = 0; k < a.size; ++k) turn(a.at(k, p), a.at(k, q));
  for (std::size_t k = 0; k < a.size; ++k) turn(axes.at(p, k), axes.at(q, k));
}

/// The `count` eigenvectors of a symmetric matrix with the largest eigenvalues, by Jacobi's method.
Rows principal_axes(Matrix a, std::size_t count) {
  constexpr int kMostSweeps = 60;
  Matrix axes{a.size};
  for (std::size_t i = 0; i < a.size; ++i) axes.at(i, i) = 1;
  const double total = std::inner_product(a.values.begin(), a.values.end(), a.values.begin(), 0.0);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0;
    for (std::size_t p = 0; p < a.size; ++p)
      for (std::size_t q = p + 1; q < a.size; ++q) off += a.at(p, q) * a.at(p, q);
    if (!(off > 1e-28 * total)) break;
    for (std::size_t p = 0; p < a.size; ++p)
      for (std::size_t q = p + 1; q < a.size; ++q) rotate(a, axes, p, q);
  }
  std::vector<std::size_t> order(a.size);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return a.at(i, i) > a.at(j, j); });
  Rows principal{a.size};
  for (std::size_t i = 0; i < std::min(count, a.size); ++i)
    for (std::size_t k = 0; k < a.size; ++k) principal.values.push_back(axes.at(order[i], k));
  return principal;
}

/// Replaces the lower triangle of a symmetric matrix by its Cholesky factor.
void factorise(Matrix& a) {
  for (std::size_t i = 0; i < a.size; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a.at(i, j);
      for (std::size_t k = 0; k < j; ++k) sum -= a.at(i, k) * a.at(j, k);
      require(i != j || sum > 0, text("the regression has no solution: pivot {} is {:g}", i, sum),
              "check that the samples differ and that all their values are finite");
      a.at(i, j) = i == j ? std::sqrt(sum) : sum / a.at(j, j);
    }
}

/// Solves L L^T x = b in place.
void solve(const Matrix& factor, std::span<double> b) {
  for (std::size_t i = 0; i < factor.size; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= factor.at(i, k) * b[k];
    b[i] /= factor.at(i, i);
  }
  for (std::size_t i = factor.size; i-- > 0;) {
    for (std::size_t k = i + 1; k < factor.size; ++k) b[i] -= factor.at(k, i) * b[k];
    b[i] /= factor.at(i, i);
  }
}

/// The means of all columns over all callers' rows.
std::vector<double> means(const Rows& rows, const AddUp& add_up) {
  std::vector<double> sums(rows.width + 1);
  for (std::size_t r = 0; r < rows.count(); ++r)
    for (std::size_t j = 0; j < rows.width; ++j) sums[j] += rows[r][j];
  sums.back() = static_cast<double>(rows.count());
  add_up(sums);
  require(sums.back() > 0, "a regression without samples", "give at least one training sample");
  for (std::size_t j = 0; j < rows.width; ++j) sums[j] /= sums.back();
  sums.pop_back();
  return sums;
}

/// Sums of products of all pairs of columns, less their means.
Matrix products(const Rows& rows, const std::vector<double>& mean, const AddUp& add_up) {
  Matrix sums{rows.width};
  for (std::size_t r = 0; r < rows.count(); ++r)
    for (std::size_t i = 0; i < rows.width; ++i)
      for (std::size_t j = 0; j < rows.width; ++j)
        sums.at(i, j) += (rows[r][i] - mean[i]) * (rows[r][j] - mean[j]);
  add_up(sums.values);
  return sums;
}

}  // namespace

std::vector<double> QuadraticRegression::terms_of(std::span<const double> features) const {
  std::vector<double> projected(components_.count());
  for (std::size_t i = 0; i < projected.size(); ++i)
    for (std::size_t k = 0; k < mean_.size(); ++k)
      projected[i] += (features[k] - mean_[k]) / deviation_[k] * components_[i][k];
  std::vector<double> terms{1};
  terms.insert(terms.end(), projected.begin(), projected.end());
  for (std::size_t i = 0; i < projected.size(); ++i)
    for (std::size_t j = i; j < projected.size(); ++j) terms.push_back(projected[i] * projected[j]);
  return terms;
}

QuadraticRegression::QuadraticRegression(const Rows& features, const Rows& targets,
                                         const AddUp& add_up, const Settings& settings)
    : mean_(means(features, add_up)), deviation_(mean_.size()) {
  Matrix correlation = products(features, mean_, add_up);
  const std::size_t width = mean_.size();
  std::vector<double> count{static_cast<double>(features.count())};
  add_up(count);
  // A feature that never changes stays 0.
  for (std::size_t i = 0; i < width; ++i)
    deviation_[i] = std::sqrt(correlation.at(i, i) / count[0]) + 1e-9;
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t j = 0; j < width; ++j) correlation.at(i, j) /= deviation_[i] * deviation_[j];
  components_ = principal_axes(std::move(correlation), settings.components);

  const std::size_t n = components_.count(), terms = 1 + n + n * (n + 1) / 2;
  // One row of sums per term: its products with all terms, then with all targets.
  Matrix normal{terms};
  coefficients_ = {terms, std::vector<double>(targets.width * terms)};
  for (std::size_t r = 0; r < features.count(); ++r) {
    const std::vector<double> t = terms_of(features[r]);
    for (std::size_t i = 0; i < terms; ++i)
      for (std::size_t j = 0; j <= i; ++j) normal.at(i, j) += t[i] * t[j];
    for (std::size_t target = 0; target < targets.width; ++target)
      for (std::size_t i = 0; i < terms; ++i)
        coefficients_.values[target * terms + i] += t[i] * targets[r][target];
  }
  add_up(normal.values);
  add_up(coefficients_.values);
  for (std::size_t i = 0; i < terms; ++i) normal.at(i, i) += settings.ridge;
  factorise(normal);
  for (std::size_t target = 0; target < targets.width; ++target)
    solve(normal, std::span(coefficients_.values).subspan(target * terms, terms));
}

std::vector<double> QuadraticRegression::predict(std::span<const double> features) const {
  const std::vector<double> terms = terms_of(features);
  std::vector<double> predicted;
  for (std::size_t t = 0; t < coefficients_.count(); ++t)
    predicted.push_back(
        std::inner_product(terms.begin(), terms.end(), coefficients_[t].begin(), 0.0));
  return predicted;
}

}  // namespace halomesh
