// SPDX-License-Identifier: Apache-2.0
// The oneDNN wrappers: inner products against fp64, gradients summed over samples, and errors that
// name the primitive.
#include "src/nn/onednn/onednn.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "error.hpp"
#include "rng.hpp"
#include "src/nn/onednn/library.hpp"

namespace halomesh {
namespace {

std::vector<float> random_values(std::int64_t size, std::uint32_t stream) {
  const CounterRng rng(7, RandomUse::kSynth, stream);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * rng.uniform(i) - 1;
  return values;
}

// Element (row, column) of a row-major matrix.
struct Matrix {
  const std::vector<float>& values;
  std::int64_t columns;
  bool transposed = false;
  double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(values[static_cast<std::size_t>(
        transposed ? column * columns + row : row * columns + column)]);
  }
};

// Counts the elements of got = a * b + bias that are off by more than gamma_n sum |a||b| with
// n = inner + 1, u = 2^-24 (Higham, Accuracy and Stability, section 3.1).
std::int64_t wrong_in_product(const std::vector<float>& got, const Matrix& a, const Matrix& b,
                              std::int64_t rows, std::int64_t inner, std::int64_t columns,
                              const float* bias = nullptr) {
  std::int64_t wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = bias ? static_cast<double>(bias[c]) : 0, magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += a.at(r, k) * b.at(k, c);
        magnitude += std::abs(a.at(r, k) * b.at(k, c));
      }
      const double nu = static_cast<double>(inner + 1) * 0x1p-24;
      const double error =
          std::abs(static_cast<double>(got[static_cast<std::size_t>(r * columns + c)]) - sum);
      wrong += error <= nu / (1 - nu) * magnitude ? 0 : 1;
    }
  return wrong;
}

}  // namespace

TEST_CASE("inner product equals fp64: forward, input gradient, weight and bias gradients") {
  struct Row {
    std::int64_t batch, in, out;
  };
  std::int64_t compared = 0;
  for (const Row row :
       {Row{1, 1, 1}, Row{3, 7, 5}, Row{1, 2048, 128}, Row{4, 128, 64}, Row{2, 64, 4}})
    for (const bool with_bias : {true, false}) {
      CAPTURE(row.in);
      CAPTURE(with_bias);
      const auto [batch, in, out] = row;
      InnerProductKernels kernels(batch, in, out, with_bias, true);
      const auto src = random_values(batch * in, 1), weight = random_values(out * in, 2),
                 bias = random_values(out, 3), diff_dst = random_values(batch * out, 4);
      auto dst = random_values(batch * out, 5), diff_src = random_values(batch * in, 6),
           diff_weight = random_values(out * in, 7), diff_bias = random_values(out, 8);
      const std::vector<float> ones(static_cast<std::size_t>(batch), 1.0F);
      const float* const bias_data = with_bias ? bias.data() : nullptr;
      kernels.forward(src.data(), weight.data(), bias_data, dst.data());
      kernels.backward_data(diff_dst.data(), weight.data(), diff_src.data());
      kernels.backward_weights(src.data(), diff_dst.data(), diff_weight.data(),
                               with_bias ? diff_bias.data() : nullptr);
      CHECK(wrong_in_product(dst, {src, in}, {weight, in, true}, batch, in, out, bias_data) == 0);
      CHECK(wrong_in_product(diff_src, {diff_dst, out}, {weight, in}, batch, out, in) == 0);
      CHECK(wrong_in_product(diff_weight, {diff_dst, out, true}, {src, in}, out, batch, in) == 0);
      if (with_bias)
        CHECK(wrong_in_product(diff_bias, {ones, batch}, {diff_dst, out}, 1, batch, out) == 0);
      CHECK(kernels.implementations().size() == 3);
      compared += batch * out + batch * in + out * in;
    }
  CHECK(compared > 500000);
}

TEST_CASE("inner product for inference has only forward") {
  const InnerProductKernels kernels(2, 8, 3, true, false);
  CHECK(kernels.implementations().size() == 1);
}

TEST_CASE("convolution kernels: equal geometries share one, `first` restarts gradients") {
  const ConvolutionGeometry block{{4, 6, 5, 7}, {16, 5, 4, 6}, {2, 2, 2}};
  ConvolutionGeometry padded = block;
  padded.dst.d = 6;
  padded.pad_after[0] = 1;
  ConvolutionKernels kernels;
  CHECK(kernels.add_forward(block) == 0);
  CHECK(kernels.add_forward(padded) == 1);
  CHECK(kernels.add_forward(block) == 0);
  kernels.add_backward_weights(block);
  kernels.allocate();
  const auto src = random_values(block.src.volume(), 1),
             diff = random_values(block.dst.volume(), 2);
  std::vector<float> once(16 * 4 * 8), twice(once.size()), bias_once(16), bias_twice(16);
  kernels.backward_weights(0, src.data(), diff.data());
  kernels.backward_weights(0, src.data(), diff.data());
  kernels.store_diff_weights(twice.data(), bias_twice.data());
  kernels.backward_weights(0, src.data(), diff.data());
  kernels.store_diff_weights(once.data(), bias_once.data());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < once.size(); ++i, ++compared) REQUIRE(twice[i] == 2 * once[i]);
  for (std::size_t i = 0; i < bias_once.size(); ++i, ++compared)
    REQUIRE(bias_twice[i] == 2 * bias_once[i]);
  CHECK(compared == 528);
  CHECK(once[0] != 0);
}

TEST_CASE("convolution kernels in the library's own layout differ only in the order of sums") {
  // Channels that fill no block, and a stride: what reorders must fill with zeros or leave out.
  for (const ConvolutionGeometry& g :
       {ConvolutionGeometry{{4, 6, 5, 7}, {16, 5, 4, 6}, {2, 2, 2}},
        ConvolutionGeometry{{19, 5, 6, 4}, {33, 2, 2, 1}, {3, 3, 3}, {2, 2, 2}}}) {
    const auto src = random_values(g.src.volume(), 1), dst_diff = random_values(g.dst.volume(), 2),
               bias = random_values(g.dst.c, 3);
    const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
    const auto weight = random_values(g.dst.c * g.src.c * taps, 4);
    std::vector<std::vector<float>> results;
    for (const bool own_layout : {false, true}) {
      ConvolutionForm form;
      form.own_layout = own_layout;
      ConvolutionKernels kernels(form);
      kernels.add_forward(g);
      kernels.add_backward_data(g);
      kernels.add_backward_weights(g);
      kernels.allocate();
      kernels.load_weights(weight.data(), bias.data());
      kernels.load_backward_weights();
      auto& dst = results.emplace_back(random_values(g.dst.volume(), 5));
      kernels.forward(0, src.data(), dst.data());
      auto& src_diff = results.emplace_back(random_values(g.src.volume(), 6));
      kernels.backward_data(0, dst_diff.data(), src_diff.data());
      kernels.backward_weights(0, src.data(), dst_diff.data());
      kernels.backward_weights(0, src.data(), dst_diff.data());
      std::vector<float> weight_diff(weight.size()), bias_diff(bias.size());
      kernels.store_diff_weights(weight_diff.data(), bias_diff.data());
      results.push_back(weight_diff);
      results.push_back(bias_diff);
    }
    // Every factor is at most 1, and a sum has at most n terms, so each result is within
    // gamma_n n of the exact one (Higham, section 3.1): twice the larger of the sums' n.
    const std::int64_t n = std::max({g.src.c * taps + 1, g.dst.c * taps, 2 * g.dst.volume()});
    const double nu = static_cast<double>(n) * 0x1p-24;
    const double allowed = 2 * nu / (1 - nu) * static_cast<double>(n);
    std::size_t compared = 0;
    double largest = 0;
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t i = 0; i < results[r].size(); ++i, ++compared)
        largest =
            std::max(largest, static_cast<double>(std::abs(results[r][i] - results[r + 4][i])));
    CHECK(largest <= allowed);
    CHECK(largest < 0.01);
    CHECK(compared > 1000);
  }
}

TEST_CASE("errors of oneDNN name the primitive, its shapes and a hint") {
  ConvolutionKernels kernels;
  const ConvolutionGeometry wrong{
      {4, 6, 5, 7}, {16, 6, 5, 7}, {2, 2, 2}};  // no padding, yet no loss
  bool thrown = false;
  try {
    kernels.add_forward(wrong);
  } catch (const Error& e) {
    thrown = true;
    const std::string what = e.what();
    CHECK(what.find(onednn_version()) != std::string::npos);
    CHECK(what.find("convolution forward 6x5x7x4 -> 6x5x7x16, kernel 2x2x2") != std::string::npos);
    CHECK(!e.hint().empty());
  }
  CHECK(thrown);
  CHECK_THROWS_WITH_AS(InnerProductKernels(1, -3, 4, true, true), doctest::Contains("-3 -> 4"),
                       Error);
}

}  // namespace halomesh
