// SPDX-License-Identifier: Apache-2.0
// Packing boxes of strided views: order, exactness, and that nothing else is touched.
#include "src/nn/pack.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "test/harness/threads.hpp"

namespace halomesh {
namespace {

const Box kSpan{{0, 2, 3, 1}, {3, 6, 8, 5}};
constexpr std::int64_t kBatch = 2;

// A value that names its position.
float code(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
  return static_cast<float>((((n * 10 + d) * 10 + h) * 10 + w) * 10 + c);
}

// Visits the box in n,d,h,w,c order.
template <class Visit>
std::int64_t visit_box(const Box& box, Visit visit) {
  std::int64_t visited = 0;
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c, ++visited) visit(n, c, d, h, w);
  return visited;
}

Tensor coded_tensor() {
  Tensor tensor(kSpan, kBatch);
  visit_box(kSpan, [&](auto n, auto c, auto d, auto h, auto w) {
    tensor.view().at(n, c, d, h, w) = code(n, c, d, h, w);
  });
  return tensor;
}

const std::vector<Box> kBoxes{
    kSpan,                         // all
    {{0, 3, 3, 1}, {3, 5, 8, 5}},  // planes: contiguous
    {{0, 2, 4, 2}, {3, 6, 6, 4}},  // inner rows
    {{1, 2, 3, 1}, {2, 6, 8, 5}},  // one channel
    {{0, 5, 7, 4}, {3, 6, 8, 5}},  // a corner
    {{2, 3, 4, 1}, {3, 4, 5, 2}},  // one element
};

}  // namespace

TEST_CASE("pack writes n,d,h,w,c order and counts") {
  const Tensor tensor = coded_tensor();
  std::int64_t compared = 0;
  for (const Box& box : kBoxes) {
    CAPTURE(box);
    std::vector<float> dense(static_cast<std::size_t>(kBatch * box.volume()) + 1, -1);
    CHECK(pack(tensor.view(), box, dense.data()) == kBatch * box.volume());
    std::size_t i = 0, wrong = 0;
    compared += visit_box(box, [&](auto n, auto c, auto d, auto h, auto w) {
      wrong += dense[i++] != code(n, c, d, h, w) ? 1U : 0U;
    });
    CHECK(wrong == 0);
    CHECK(dense.back() == -1);
  }
  CHECK(compared > 300);
}

TEST_CASE("boxes packed together equal boxes packed one by one, with any number of threads") {
  // More than kSharedCopyBytes in all, so that threads share them.
  const Box span{{0, 2, 3, 1}, {8, 14, 23, 21}};
  const std::vector<Box> boxes{span,
                               {{0, 3, 3, 1}, {8, 4, 23, 21}},
                               {{0, 2, 5, 2}, {8, 14, 9, 20}},
                               {{3, 2, 3, 1}, {5, 14, 22, 20}},
                               {{0, 13, 22, 20}, {8, 14, 23, 21}}};
  Tensor tensor(span, kBatch);
  for (std::int64_t i = 0; i < kBatch * span.volume(); ++i)
    tensor.view().data[i] = 1 / static_cast<float>(i + 3);
  std::vector<std::vector<float>> expected, dense;
  std::vector<DenseBox<std::byte>> to_pack;
  std::vector<DenseBox<const std::byte>> to_unpack;
  for (const Box& box : boxes) {
    expected.emplace_back(static_cast<std::size_t>(kBatch * box.volume()));
    dense.emplace_back(expected.back().size());
    pack(tensor.view(), box, expected.back().data());
    const std::span bytes = std::as_writable_bytes(std::span(dense.back()));
    to_pack.push_back({box, bytes.data()});
    to_unpack.push_back({box, bytes.data()});
  }
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    const Threads scope(threads);
    for (std::vector<float>& each : dense) std::fill(each.begin(), each.end(), -1.0F);
    pack(AnyConstView(tensor.view()), to_pack);
    CHECK(dense == expected);
    for (const bool add : {false, true}) {
      CAPTURE(add);
      Tensor one_by_one(span, kBatch), together(span, kBatch);
      fill(one_by_one.view(), span, 0.1F);
      fill(together.view(), span, 0.1F);
      for (std::size_t b = 0; b < boxes.size(); ++b)
        add ? unpack_add(expected[b].data(), boxes[b], one_by_one.view())
            : unpack_copy(expected[b].data(), boxes[b], one_by_one.view());
      add ? unpack_add(to_unpack, together.view()) : unpack_copy(to_unpack, together.view());
      CHECK(std::equal(one_by_one.view().data, one_by_one.view().data + kBatch * span.volume(),
                       together.view().data));
    }
  }
}

TEST_CASE("unpack_copy and unpack_add change only their box") {
  std::int64_t compared = 0;
  for (const Box& box : kBoxes)
    for (const bool add : {false, true}) {
      CAPTURE(box);
      const Tensor tensor = coded_tensor();
      std::vector<float> dense(static_cast<std::size_t>(kBatch * box.volume()));
      std::iota(dense.begin(), dense.end(), 1.0F);
      const std::int64_t moved = add ? unpack_add(dense.data(), box, tensor.view())
                                     : unpack_copy(dense.data(), box, tensor.view());
      CHECK(moved == kBatch * box.volume());
      std::size_t i = 0, wrong = 0;
      compared += visit_box(kSpan, [&](auto n, auto c, auto d, auto h, auto w) {
        float expected = code(n, c, d, h, w);
        if (box.contains({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}}))
          expected = dense[i++] + (add ? expected : 0.0F);
        wrong += tensor.view().at(n, c, d, h, w) != expected ? 1U : 0U;
      });
      CHECK(wrong == 0);
      CHECK(i == dense.size());
    }
  CHECK(compared > 300);
}

TEST_CASE("numbers of fp64 are moved and added with all their digits") {
  const Box box{{1, 3, 4, 2}, {3, 5, 7, 4}};
  const Tensor from(kSpan, kBatch, DataType::kFloat64), to(kSpan, kBatch, DataType::kFloat64);
  const auto source = from.any_view().as<double>(), target = to.any_view().as<double>();
  const auto digits = [](double base) { return base + 0x1p-40; };
  visit_box(kSpan, [&](auto n, auto c, auto d, auto h, auto w) {
    source.at(n, c, d, h, w) = digits(static_cast<double>(code(n, c, d, h, w)));
    target.at(n, c, d, h, w) = 1;
  });
  std::vector<double> dense(static_cast<std::size_t>(kBatch * box.volume()));
  auto* const bytes =
      reinterpret_cast<std::byte*>(dense.data());  // NOLINT: bytes of the same memory
  CHECK(pack(from.any_view(), box, bytes) == kBatch * box.volume());
  CHECK(unpack_add(bytes, box, to.any_view()) == kBatch * box.volume());
  std::int64_t wrong = 0;
  const std::int64_t compared = visit_box(kSpan, [&](auto n, auto c, auto d, auto h, auto w) {
    const bool inside = box.contains({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}});
    const double added = digits(static_cast<double>(code(n, c, d, h, w)) + 1);
    wrong += target.at(n, c, d, h, w) != (inside ? added : 1) ? 1 : 0;
  });
  CHECK(wrong == 0);
  CHECK(compared > 100);
  clear(to.any_view(), kSpan);
  CHECK(target.at(1, 1, 3, 4, 2) == 0);
}

TEST_CASE("add_box adds a box of one view to that of another with a larger span") {
  const Box larger{{0, 1, 3, 0}, {4, 7, 8, 6}};
  std::int64_t compared = 0;
  for (const Box& box : kBoxes) {
    CAPTURE(box);
    const Tensor from = coded_tensor(), to(larger, kBatch);
    fill(to.view(), larger, 0.5F);
    CHECK(add_box(from.any_view(), box, to.any_view()) == kBatch * box.volume());
    std::int64_t wrong = 0;
    compared += visit_box(larger, [&](auto n, auto c, auto d, auto h, auto w) {
      const bool inside = box.contains({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}});
      const float expected = 0.5F + (inside ? code(n, c, d, h, w) : 0);
      wrong += to.view().at(n, c, d, h, w) != expected ? 1 : 0;
    });
    CHECK(wrong == 0);
  }
  CHECK(compared > 300);
}

TEST_CASE("pack then unpack is the identity on large boxes, which run on several threads") {
  const Box span{{0, 0, 0, 0}, {8, 24, 24, 24}}, box{{0, 1, 2, 3}, {8, 23, 22, 21}};
  const Tensor from(span, 1), to(span, 1);
  for (std::int64_t i = 0; i < span.volume(); ++i) from.view().data[i] = static_cast<float>(i);
  std::vector<float> dense(static_cast<std::size_t>(box.volume()));
  pack(from.view(), box, dense.data());
  unpack_copy(dense.data(), box, to.view());
  std::int64_t wrong = 0, inside = 0;
  for (std::int64_t i = 0; i < span.volume(); ++i) {
    const float expected = to.view().data[i] == 0 ? 0.0F : static_cast<float>(i);
    wrong += to.view().data[i] != expected ? 1 : 0;
    inside += to.view().data[i] != 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(inside == box.volume());
}

TEST_CASE("fill sets its box; an empty box moves nothing") {
  const Tensor tensor = coded_tensor();
  const Box box{{0, 3, 4, 2}, {2, 5, 7, 4}};
  fill(tensor.view(), box, -7);
  std::int64_t wrong = 0;
  const std::int64_t compared = visit_box(kSpan, [&](auto n, auto c, auto d, auto h, auto w) {
    const bool inside = box.contains({{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}});
    wrong += tensor.view().at(n, c, d, h, w) != (inside ? -7 : code(n, c, d, h, w)) ? 1 : 0;
  });
  CHECK(wrong == 0);
  CHECK(compared == kBatch * kSpan.volume());
  float untouched = 3;
  CHECK(pack(tensor.view(), Box{}, &untouched) == 0);
  CHECK(untouched == 3);
}

TEST_CASE("is_dense says whether a box is one range of memory") {
  const ConstView view{nullptr, kSpan, 1};
  struct Row {
    Box box;
    bool dense;
  };
  const std::vector<Row> rows{{kSpan, true},
                              {{{0, 3, 3, 1}, {3, 5, 8, 5}}, true},    // planes
                              {{{0, 3, 4, 1}, {3, 4, 6, 5}}, true},    // rows of one plane
                              {{{0, 3, 4, 2}, {3, 4, 5, 4}}, true},    // a part of one row
                              {{{0, 3, 4, 1}, {3, 5, 6, 5}}, false},   // rows of two planes
                              {{{0, 3, 4, 2}, {3, 4, 6, 4}}, false},   // parts of two rows
                              {{{0, 3, 3, 1}, {2, 5, 8, 5}}, false},   // some channels
                              {{{0, 1, 3, 1}, {3, 5, 8, 5}}, false}};  // outside the span
  for (const Row& row : rows) {
    CAPTURE(row.box);
    CHECK(view.is_dense(row.box) == row.dense);
  }
}

}  // namespace halomesh
