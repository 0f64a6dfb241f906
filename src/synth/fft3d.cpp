// SPDX-License-Identifier: Apache-2.0
// FFTW plans, their lifetime, and the distribution of planes and rows over threads.
#include "src/synth/fft3d.hpp"

#include <fftw3.h>

#include <mutex>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

// FFTW's planner keeps global state and is not thread-safe; execution is.
std::mutex& planner_mutex() {
  static std::mutex mutex;
  return mutex;
}

// FFTW_UNALIGNED: planes start at any address, and the bits must not depend on it.
constexpr unsigned kPlanFlags = FFTW_ESTIMATE | FFTW_UNALIGNED;

struct DestroyPlan {
  void operator()(fftw_plan plan) const {
    const std::lock_guard lock(planner_mutex());
    fftw_destroy_plan(plan);
  }
};
using Plan = std::unique_ptr<std::remove_pointer_t<fftw_plan>, DestroyPlan>;

fftw_complex* as_fftw(std::complex<double>* p) { return reinterpret_cast<fftw_complex*>(p); }

}  // namespace

void SpectralGrid::Free::operator()(double* p) const { fftw_free(p); }

SpectralGrid::SpectralGrid(std::int64_t n) : n_(n) {
  require(n >= 2, text("a grid of extent {} has no Fourier modes", n), "use 2 or more");
  const std::int64_t count = n * n * 2 * half();
  real_.reset(fftw_alloc_real(static_cast<std::size_t>(count)));
  require(real_ != nullptr, text("out of memory for a grid of {}^3 ({} bytes)", n, count * 8),
          "make a smaller universe or use a machine with more memory");
}

struct Fft3d::Plans {
  std::int64_t n;
  Plan plane_forward, plane_backward;      // one d plane: n x n reals <-> n x half modes
  Plan columns_forward, columns_backward;  // one h row: half columns along d
};

Fft3d::Fft3d(std::int64_t extent) : plans_(std::make_unique<Plans>()) {
  SpectralGrid grid(extent);  // planning needs addresses, but does not touch the memory
  const int n = narrow<int>(extent);
  const int half = narrow<int>(grid.half());
  const int stride = narrow<int>(extent * grid.half());
  double* real = grid.row(0, 0);
  fftw_complex* modes = as_fftw(grid.modes(0, 0));
  const auto columns = [&](int sign) {
    return fftw_plan_many_dft(1, &n, half, modes, nullptr, stride, 1, modes, nullptr, stride, 1,
                              sign, kPlanFlags);
  };
  const std::lock_guard lock(planner_mutex());
  plans_->n = extent;
  plans_->plane_forward.reset(fftw_plan_dft_r2c_2d(n, n, real, modes, kPlanFlags));
  plans_->plane_backward.reset(fftw_plan_dft_c2r_2d(n, n, modes, real, kPlanFlags));
  plans_->columns_forward.reset(columns(FFTW_FORWARD));
  plans_->columns_backward.reset(columns(FFTW_BACKWARD));
  require(plans_->plane_forward && plans_->plane_backward && plans_->columns_forward &&
              plans_->columns_backward,
          text("FFTW has no plan for a grid of {}^3", extent), "check the FFTW installation");
}

Fft3d::~Fft3d() = default;
Fft3d::Fft3d(Fft3d&&) noexcept = default;
Fft3d& Fft3d::operator=(Fft3d&&) noexcept = default;

void Fft3d::forward(SpectralGrid& grid) const {
  require(grid.extent() == plans_->n, text("grid of {}, plan of {}", grid.extent(), plans_->n));
#pragma omp parallel if (worth_sharing(grid.extent()))
  {
#pragma omp for
    for (std::int64_t d = 0; d < grid.extent(); ++d)
      fftw_execute_dft_r2c(plans_->plane_forward.get(), grid.row(d, 0), as_fftw(grid.modes(d, 0)));
#pragma omp for
    for (std::int64_t h = 0; h < grid.extent(); ++h)
      fftw_execute_dft(plans_->columns_forward.get(), as_fftw(grid.modes(0, h)),
                       as_fftw(grid.modes(0, h)));
  }
}

void Fft3d::backward(SpectralGrid& grid) const {
  require(grid.extent() == plans_->n, text("grid of {}, plan of {}", grid.extent(), plans_->n));
#pragma omp parallel if (worth_sharing(grid.extent()))
  {
#pragma omp for
    for (std::int64_t h = 0; h < grid.extent(); ++h)
      fftw_execute_dft(plans_->columns_backward.get(), as_fftw(grid.modes(0, h)),
                       as_fftw(grid.modes(0, h)));
#pragma omp for
    for (std::int64_t d = 0; d < grid.extent(); ++d)
      fftw_execute_dft_c2r(plans_->plane_backward.get(), as_fftw(grid.modes(d, 0)), grid.row(d, 0));
  }
}

}  // namespace halomesh
