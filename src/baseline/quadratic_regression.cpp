// SPDX-License-Identifier: Apache-2.0
// Polynomial least squares: see quadratic_regression.hpp.
#include "src/baseline/quadratic_regression.hpp"

// Matrices are small; without its own threads and vectors, Eigen adds in one order everywhere.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_VECTORIZE
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

using Matrix = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const RowMajor> matrix_of(const Rows& rows) {
  return {rows.values.data(), static_cast<Eigen::Index>(rows.count()),
          static_cast<Eigen::Index>(rows.width)};
}

std::span<double> values_of(Matrix& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

/// The column means over the rows of all callers.
std::vector<double> means(const Rows& rows, const AddUp& add_up) {
  std::vector<double> sums(rows.width + 1, static_cast<double>(rows.count()));
  for (std::size_t j = 0; j < rows.width; ++j)
    sums[j] = matrix_of(rows).col(static_cast<Eigen::Index>(j)).sum();
  add_up(sums);
  require(sums.back() > 0, "a regression without samples", "give at least one training sample");
  for (std::size_t j = 0; j < rows.width; ++j) sums[j] /= sums.back();
  sums.pop_back();
  return sums;
}

/// The eigenvectors of a symmetric matrix with the largest eigenvalues, one per row.
Rows principal_axes(const Matrix& a, std::size_t count) {
  const Matrix axes = Eigen::SelfAdjointEigenSolver<Matrix>(a).eigenvectors();  // ascending
  Rows principal{static_cast<std::size_t>(a.rows())};
  for (Eigen::Index i = a.rows(); i > 0 && principal.count() < count; --i)
    for (const double value : axes.col(i - 1)) principal.values.push_back(value);
  return principal;
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
  const auto width = static_cast<Eigen::Index>(mean_.size());
  const Eigen::Map<const Eigen::RowVectorXd> mean(mean_.data(), width);
  const Matrix centred = matrix_of(features).rowwise() - mean;
  Matrix correlation = centred.transpose() * centred;
  add_up(values_of(correlation));
  std::vector<double> count{static_cast<double>(features.count())};
  add_up(count);
  // The small addend keeps a feature that never changes at 0.
  Eigen::Map<Eigen::VectorXd> deviation(deviation_.data(), width);
  deviation = (correlation.diagonal() / count[0]).cwiseSqrt().array() + 1e-9;
  correlation.array() /= (deviation * deviation.transpose()).array();
  components_ = principal_axes(correlation, settings.components);

  Rows terms{terms_of(mean_).size()};
  for (std::size_t r = 0; r < features.count(); ++r) {
    const std::vector<double> row = terms_of(features[r]);
    terms.values.insert(terms.values.end(), row.begin(), row.end());
  }
  Matrix normal = matrix_of(terms).transpose() * matrix_of(terms);
  Matrix products = matrix_of(terms).transpose() * matrix_of(targets);
  add_up(values_of(normal));
  add_up(values_of(products));
  normal.diagonal().array() += settings.ridge;
  const Matrix solution = normal.llt().solve(products);
  require(solution.allFinite(), "the regression has no solution",
          "check that the samples differ and that all their values are finite");
  coefficients_ = {terms.width, {solution.data(), solution.data() + solution.size()}};
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
