// SPDX-License-Identifier: Apache-2.0
// In-place real <-> complex Fourier transforms of cubic grids. Only fft3d.cpp includes FFTW.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>

namespace halomesh {

/// Memory for one cubic grid, either as n^3 reals or as its n x n x (n/2+1) Fourier modes (the
/// other half follows from f(-k) = conj f(k)); both views share the bytes: 8 (1 + 2/n) bytes per
/// cell. Owns the memory.
class SpectralGrid {
 public:
  /// Uninitialised. Throws Error when n < 2 or out of memory.
  explicit SpectralGrid(std::int64_t n);

  std::int64_t extent() const { return n_; }
  /// Modes along the last axis: n/2 + 1.
  std::int64_t half() const { return n_ / 2 + 1; }
  /// The n reals of row (d, h). Rows are padded to 2 half() reals.
  double* row(std::int64_t d, std::int64_t h) { return real_.get() + (d * n_ + h) * 2 * half(); }
  const double* row(std::int64_t d, std::int64_t h) const {
    return real_.get() + (d * n_ + h) * 2 * half();
  }
  /// The half() modes of frequencies (d, h): index i stands for frequency i, or i - n if i > n/2.
  std::complex<double>* modes(std::int64_t d, std::int64_t h) {
    return reinterpret_cast<std::complex<double>*>(row(d, h));
  }
  const std::complex<double>* modes(std::int64_t d, std::int64_t h) const {
    return reinterpret_cast<const std::complex<double>*>(row(d, h));
  }

 private:
  struct Free {
    void operator()(double* p) const;
  };
  std::int64_t n_;
  std::unique_ptr<double, Free> real_;
};

/// The transforms of grids of one extent; unnormalized: backward(forward(f)) = n^3 f. Forward has
/// exp(-i k x). OpenMP distributes whole planes and rows over single-threaded FFTW plans made
/// without measurements, so that the number of threads does not change a bit of the results.
class Fft3d {
 public:
  explicit Fft3d(std::int64_t n);
  ~Fft3d();
  Fft3d(Fft3d&&) noexcept;
  Fft3d& operator=(Fft3d&&) noexcept;

  /// Reals -> modes, in place.
  void forward(SpectralGrid& grid) const;
  /// Modes -> reals, in place.
  void backward(SpectralGrid& grid) const;

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

/// Whether a loop over a grid of this extent is long enough to be worth an OpenMP team.
inline bool worth_sharing(std::int64_t n) { return n >= 48; }

/// The signed frequency of index i on an axis of n cells: in (-n/2, n/2].
inline std::int64_t frequency(std::int64_t i, std::int64_t n) { return i > n / 2 ? i - n : i; }

}  // namespace halomesh
