// SPDX-License-Identifier: Apache-2.0
// The harness that checks layers can itself fail: each kind of wrong layer is detected, and the
// exchange is the exact adjoint of its reverse.
#include "test/harness/layer_check.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "rng.hpp"
#include "src/nn/layers/convolution.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/in_process_exchange.hpp"

namespace halomesh {
namespace {

const WindowOptions kWindow = WindowOptions::cube(3, 1, PaddingKind::kSame);

// A convolution with one deliberate mistake in one of its operations.
class Wrong : public Convolution {
 public:
  enum Mistake {
    kNone,
    kHaloTooSmall,
    kDstOff,
    kWritesOutside,
    kDiffSrcOff,
    kDiffSrcUnwritten,
    kDiffWeightOff,
    kDiffBiasUnwritten,
    kKeepsState,
  };
  explicit Wrong(Mistake mistake) : Convolution({3, kWindow}), mistake_(mistake) {}

  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override {
    const Box box = Convolution::needs(dst, input, src);
    return mistake_ == kHaloTooSmall && !prepared_ ? intersect(box, dst_to_src(dst, src[0])) : box;
  }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override {
    parameters_ = parameters;
    prepared_ = true;
    LayerContext true_context = context;
    true_context.boxes.src_needed[0] =
        Convolution::needs(context.boxes.dst_produced, 0, context.src_shapes);
    Convolution::prepare(true_context, std::move(parameters));
  }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override {
    Convolution::forward(pass, src, dst, chunk);
    if (mistake_ == kDstOff) *dst.as<float>().begin_of(0, chunk) += 1e-3F;
    if (mistake_ == kKeepsState)
      *dst.as<float>().begin_of(0, chunk) *= 1 + 1e-7F * static_cast<float>(steps_++);
    if (mistake_ == kWritesOutside) fill(dst.as<float>(), dst.span, 1);
  }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override {
    Convolution::backward_data(pass, values, diff_dst, input, diff_src);
    const View diff = diff_src.as<float>();
    float& last = diff.data[diff.batch * diff.sample_volume() - 1];
    if (mistake_ == kDiffSrcOff) last += 1e-3F;
    if (mistake_ == kDiffSrcUnwritten) last = std::numeric_limits<float>::quiet_NaN();
  }
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override {
    Convolution::backward_parameters(pass, src, diff_dst);
    if (mistake_ == kDiffWeightOff) parameters_[0].diffs[5] += 1e-3F;
    if (mistake_ == kDiffBiasUnwritten)
      parameters_[1].diffs[2] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  // The planes of src at the positions of dst: what a layer without a halo would need.
  static Box dst_to_src(Box dst, const Shape& src) {
    dst.hi[kC] = src.c;
    return dst;
  }
  Mistake mistake_;
  bool prepared_ = false;  // then it reads what a convolution must, regardless of its declaration
  std::vector<ParameterView> parameters_;
  std::int64_t steps_ = 0;
};

LayerCase wrong_case(Wrong::Mistake mistake) {
  LayerCase test;
  test.make_layer = [mistake] { return std::make_unique<Wrong>(mistake); };
  test.cut.src_shapes = {{2, 6, 5, 4}};
  test.cut.grid = {2, 1, 1};
  test.cut.src_margin = {1, 0, 0};
  test.cut.dst_margin = {1, 0, 0};
  test.reference = convolution_reference(kWindow.resolve({6, 5, 4}));
  test.linear = true;
  test.repeat = true;
  return test;
}

}  // namespace

TEST_CASE("layer check: every mistake is detected, and a correct layer passes") {
  CHECK(check_layer(wrong_case(Wrong::kNone)).failures.empty());
  for (const auto mistake : {Wrong::kHaloTooSmall, Wrong::kDstOff, Wrong::kWritesOutside,
                             Wrong::kDiffSrcOff, Wrong::kDiffSrcUnwritten, Wrong::kDiffWeightOff,
                             Wrong::kDiffBiasUnwritten, Wrong::kKeepsState}) {
    CAPTURE(mistake);
    CHECK(!check_layer(wrong_case(mistake)).failures.empty());
  }
}

TEST_CASE("layer check: a reference with other padding, kernel order or weight is detected") {
  LayerCase test = wrong_case(Wrong::kNone);
  Window window = kWindow.resolve({6, 5, 4});
  window[1] = {3, 1, 1, 0, 2};
  test.reference = convolution_reference(window);
  CHECK(check_layer(test).failures.size() >= 3);
}

TEST_CASE("in-process exchange: copy fills halos, add_back is its adjoint") {
  // Whole numbers: every sum below is exact in fp32, so the adjoint holds to the last bit.
  const Shape shape{2, 7, 6, 5};
  const std::int64_t batch = 2;
  std::int64_t compared = 0;
  for (const PartGrid grid : {PartGrid{3, 1, 1}, PartGrid{2, 2, 2}, PartGrid{9, 1, 1}}) {
    const Partition owned = block_partition(shape, grid);
    std::vector<Box> needed;
    const Window window{AxisWindow{5, 1, 1, 2, 2}, {3, 1, 1, 1, 1}, {2, 1, 1, 0, 1}};
    for (const Box& box : owned) needed.push_back(needed_box(window, box, shape));
    const InProcessExchange exchange(plan_transfers(owned, needed));
    std::vector<Tensor> x, y;
    std::vector<View> x_views, y_views;
    const CounterRng rng(4, RandomUse::kSynth);
    std::uint64_t next = 0;
    const auto whole = [&] { return static_cast<float>(rng.block(next++)[0] % 17) - 8; };
    for (std::size_t p = 0; p < owned.size(); ++p) {
      x_views.push_back(x.emplace_back(hull(owned[p], needed[p]), batch).view());
      y_views.push_back(y.emplace_back(hull(owned[p], needed[p]), batch).view());
      for (std::int64_t i = 0; i < batch * y_views[p].sample_volume(); ++i)
        y_views[p].data[i] = whole();
      std::vector<float> values(static_cast<std::size_t>(batch * owned[p].volume()));
      for (float& v : values) v = whole();
      unpack_copy(values.data(), owned[p], x_views[p]);
    }
    const auto inner = [&](const std::vector<Box>& a, const std::vector<Box>& b) {
      double sum = 0;
      for (std::size_t p = 0; p < a.size(); ++p) {
        const Box box = hull(a[p], b[p]);
        std::vector<float> u(static_cast<std::size_t>(batch * box.volume())), v(u.size());
        pack(x_views[p], box, u.data());
        pack(y_views[p], box, v.data());
        for (std::size_t i = 0; i < u.size(); ++i, ++compared)
          sum += static_cast<double>(u[i]) * static_cast<double>(v[i]);
      }
      return sum;
    };
    CHECK(exchange.copy(x_views) > 0);
    const double forward = inner(owned, needed);  // <Hx, y>
    CHECK(exchange.add_back(y_views) > 0);
    CHECK(forward == inner(owned, owned));  // <x, H'y>
    CHECK(forward != 0);
  }
  CHECK(compared > 1000);
}

}  // namespace halomesh
