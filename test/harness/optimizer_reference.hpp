// SPDX-License-Identifier: Apache-2.0
// Optimizers on whole tensors in double precision, straight from their formulas, with bounds on the
// effect of rounding to fp32.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "src/nn/optimizer.hpp"

namespace halomesh {

/// A tensor with the optimizer's two states (SGD has one, `m`), and for each of them a bound on the
/// deviation of a computation in fp32: first order in u = 2^-24, where each operation and each
/// rounded constant adds at most u times the magnitude of its result.
struct ReferenceTensor {
  std::vector<double> w, m, v, w_error, m_error, v_error;
  bool one_per_channel = false;  ///< for LARS: a bias

  explicit ReferenceTensor(std::vector<double> weights)
      : w(std::move(weights)),
        m(w.size()),
        v(w.size()),
        w_error(w.size()),
        m_error(w.size()),
        v_error(w.size()) {}
};

/// Six formulas: clipping, SGD, Nesterov, AdamW, LAMB, LARS.
class OptimizerReference {
 public:
  static constexpr double kU = 0x1p-24;

  /// A `clip_norm` of 0 means no clipping.
  OptimizerReference(OptimizerOptions options, double clip_norm)
      : options_(std::move(options)), clip_norm_(clip_norm) {}

  /// Makes update t = 1, 2, ... with the gradients of all tensors.
  void update(std::vector<ReferenceTensor>& tensors, std::vector<std::vector<double>> gradients,
              std::int64_t t, double rate) const {
    clip(gradients);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (options_.name == "adamw" || options_.name == "lamb")
        adam(tensors[k], gradients[k], t, rate);
      else if (options_.name == "lars")
        lars(tensors[k], gradients[k], rate);
      else
        sgd(tensors[k], gradients[k], rate);
    }
  }

 private:
  void clip(std::vector<std::vector<double>>& gradients) const {
    double sum = 0;
    for (const auto& gradient : gradients)
      for (const double g : gradient) sum += g * g;
    if (clip_norm_ == 0 || std::sqrt(sum) <= clip_norm_) return;
    for (auto& gradient : gradients)
      for (double& g : gradient) g *= clip_norm_ / std::sqrt(sum);
  }

  // Both count two roundings of the clipped gradient.
  void sgd(ReferenceTensor& x, const std::vector<double>& gradient, double rate) const {
    const double mu = options_.momentum, decay = options_.weight_decay;
    const bool nesterov = options_.name == "nesterov";
    for (std::size_t i = 0; i < x.w.size(); ++i) {
      const double g = gradient[i], step = rate * (g + decay * x.w[i]);
      const double step_error =
          rate * (6 * kU * (std::abs(g) + decay * std::abs(x.w[i])) + decay * x.w_error[i]);
      x.m_error[i] = mu * x.m_error[i] + step_error + 2 * kU * mu * std::abs(x.m[i]) +
                     kU * std::abs(mu * x.m[i] + step);
      x.m[i] = mu * x.m[i] + step;
      const double change = nesterov ? mu * x.m[i] + step : x.m[i];
      x.w_error[i] += nesterov ? mu * x.m_error[i] + step_error +
                                     3 * kU * (mu * std::abs(x.m[i]) + std::abs(step))
                               : x.m_error[i];
      x.w[i] -= change;
      x.w_error[i] += kU * std::abs(x.w[i]);
    }
  }

  void lars(ReferenceTensor& x, const std::vector<double>& gradient, double rate) const {
    const bool scaled = options_.lars_biases || !x.one_per_channel;
    const double mu = options_.momentum, decay = scaled ? options_.weight_decay : 0;
    double w_squares = 0, g_squares = 0, w_errors = 0;
    for (std::size_t i = 0; i < x.w.size(); ++i) {
      w_squares += x.w[i] * x.w[i];
      w_errors += x.w_error[i] * x.w_error[i];
      g_squares += gradient[i] * gradient[i];
    }
    double scale = rate, relative = 0;  // the error of the scale
    if (scaled && w_squares > 0 && g_squares > 0) {
      scale *= options_.lars_coefficient * std::sqrt(w_squares) /
               (std::sqrt(g_squares) + decay * std::sqrt(w_squares) + options_.epsilon);
      relative = std::sqrt(w_errors / w_squares) + 2 * kU;
    }
    for (std::size_t i = 0; i < x.w.size(); ++i) {
      const double g = gradient[i], step = scale * (g + decay * x.w[i]);
      const double step_error =
          scale * (6 * kU * (std::abs(g) + decay * std::abs(x.w[i])) + decay * x.w_error[i]) +
          relative * std::abs(step);
      x.m_error[i] = mu * x.m_error[i] + step_error + 2 * kU * mu * std::abs(x.m[i]) +
                     kU * std::abs(mu * x.m[i] + step);
      x.m[i] = mu * x.m[i] + step;
      x.w[i] -= x.m[i];
      x.w_error[i] += x.m_error[i] + kU * std::abs(x.w[i]);
    }
  }

  void adam(ReferenceTensor& x, const std::vector<double>& gradient, std::int64_t t,
            double rate) const {
    const double b1 = options_.betas[0], b2 = options_.betas[1], decay = options_.weight_decay;
    const double c1 = 1 / (1 - std::pow(b1, t)), c2 = 1 / (1 - std::pow(b2, t));
    const bool lamb = options_.name == "lamb";
    const std::size_t size = x.w.size();
    std::vector<double> u(size), u_error(size);
    double w_squares = 0, u_squares = 0, w_errors = 0, u_errors = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double g = gradient[i];
      x.m_error[i] = b1 * x.m_error[i] + 5 * kU * (b1 * std::abs(x.m[i]) + (1 - b1) * std::abs(g));
      x.m[i] = b1 * x.m[i] + (1 - b1) * g;
      x.v[i] = b2 * x.v[i] + (1 - b2) * g * g;
      x.v_error[i] = b2 * x.v_error[i] + 8 * kU * x.v[i];
      const double below = std::sqrt(x.v[i] * c2) + options_.epsilon,
                   direction = x.m[i] * c1 / below;
      u[i] = direction + (lamb ? decay * x.w[i] : 0);
      u_error[i] = x.m_error[i] * c1 / below +
                   std::abs(direction) * ((x.v[i] > 0 ? x.v_error[i] / (2 * x.v[i]) : 0) + 8 * kU) +
                   (lamb ? decay * (x.w_error[i] + 3 * kU * std::abs(x.w[i])) : 0);
      w_squares += x.w[i] * x.w[i];
      u_squares += u[i] * u[i];
      w_errors += x.w_error[i] * x.w_error[i];
      u_errors += u_error[i] * u_error[i];
    }
    double ratio = 1, ratio_error = 0;  // the second is relative
    if (lamb && decay > 0 && w_squares > 0 && u_squares > 0) {
      ratio = std::sqrt(w_squares / u_squares);
      ratio_error = std::sqrt(w_errors / w_squares) + std::sqrt(u_errors / u_squares) + 2 * kU;
    }
    const double kept = lamb ? 1 : 1 - rate * decay;
    for (std::size_t i = 0; i < size; ++i) {
      const double change = rate * ratio * u[i];
      x.w[i] = kept * x.w[i] - change;
      x.w_error[i] += rate * ratio * u_error[i] + std::abs(change) * (ratio_error + 3 * kU) +
                      3 * kU * (std::abs(x.w[i]) + std::abs(change));
    }
  }

  OptimizerOptions options_;
  double clip_norm_;
};

}  // namespace halomesh
