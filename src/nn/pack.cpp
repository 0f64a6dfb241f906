// SPDX-License-Identifier: Apache-2.0
// Boxes to dense buffers and back: see pack.hpp.
#include "src/nn/pack.hpp"

#include <omp.h>

#include <algorithm>

#include "copy_cost.hpp"
#include "simulation.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

// Calls row(pointer to the first element, offset in the dense buffer, length) for every run of the
// box in the view.
template <class T, class Row>
void for_each_row(TensorView<T> view, const Box& box, Row row) {
  visit_runs(box, view.batch, has_all_channels(box, view),
             [&](const Run& run) { row(run.begin_in(view, box), run.at, run.length); });
}

template <class T>
std::int64_t pack_elements(TensorView<const T> src, const Box& box, T* dense) {
  for_each_row(src, box, [dense](const T* from, std::int64_t at, std::int64_t length) {
    std::copy_n(from, length, dense + at);
  });
  return src.batch * box.volume();
}

template <class T>
std::int64_t copy_elements(const T* dense, const Box& box, TensorView<T> dst) {
  for_each_row(dst, box, [dense](T* to, std::int64_t at, std::int64_t length) {
    std::copy_n(dense + at, length, to);
  });
  return dst.batch * box.volume();
}

void add_run(const double* from, std::int64_t length, double* to) {
  for (std::int64_t i = 0; i < length; ++i) to[i] += from[i];
}

template <class T>
void add_run(const T* from, std::int64_t length, T* to) {
  for (std::int64_t i = 0; i < length; ++i)
    to[i] = T(static_cast<float>(to[i]) + static_cast<float>(from[i]));
}

template <class T>
std::int64_t add_elements(const T* dense, const Box& box, TensorView<T> dst) {
  for_each_row(dst, box, [dense](T* to, std::int64_t at, std::int64_t length) {
    add_run(dense + at, length, to);
  });
  return dst.batch * box.volume();
}

// Simulates only the time of the work. Returns the number of elements.
template <class Byte>
std::int64_t simulate_copy(TypedView<Byte> view, const Box& box) {
  const std::int64_t elements = view.batch * box.volume();
  simulation::copied(elements * size_of(view.type));
  return elements;
}

// Calls row(box, view pointer to the first element, dense pointer, length) for the runs of all
// boxes. The rows of equal n + d + h are the work of one thread, box after box.
template <class T, class Byte, class Row>
void for_rows_of_all(TensorView<T> view, std::span<const DenseBox<Byte>> boxes, const Row& row) {
  using Dense = std::conditional_t<std::is_const_v<Byte>, const std::remove_const_t<T>,
                                   std::remove_const_t<T>>;
  std::int64_t elements = 0;
  for (const DenseBox<Byte>& each : boxes) elements += view.batch * each.box.volume();
  [[maybe_unused]] const bool shared =
      elements * static_cast<std::int64_t>(sizeof(T)) > kSharedCopyBytes;
#pragma omp parallel if (shared)
  for (const DenseBox<Byte>& each : boxes) {
    const auto dense = reinterpret_cast<Dense*>(each.dense);  // NOLINT: as documented
    visit_runs_of_thread(each.box, view.batch, has_all_channels(each.box, view),
                         omp_get_thread_num(), omp_get_num_threads(), [&](const Run& run) {
                           row(run.begin_in(view, each.box), dense + run.at, run.length);
                         });
  }
}

// Simulates only the time of the work.
template <class Byte, class ViewByte>
void simulate_copies(std::span<const DenseBox<Byte>> boxes, TypedView<ViewByte> view) {
  std::int64_t elements = 0;
  for (const DenseBox<Byte>& each : boxes) elements += view.batch * each.box.volume();
  if (elements > 0) simulation::copied(elements * size_of(view.type));
}

// Calls body(T{}) with the type of the elements.
template <class Body>
auto with_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kBfloat16:
      return body(Bfloat16{});
    case DataType::kInt16:
      return body(std::int16_t{});
    case DataType::kFloat64:
      return body(double{});
    case DataType::kUint8:
      return body(std::uint8_t{});
    case DataType::kFloat32:
      break;
  }
  return body(float{});
}

// Calls body(T{}) for the types that can be added.
template <class Body>
auto with_number(DataType type, const Body& body) {
  if (type == DataType::kFloat64) return body(double{});
  if (type == DataType::kFloat32) return body(float{});
  return body(Bfloat16{});
}

}  // namespace

std::int64_t pack(ConstView src, const Box& box, float* dense) {
  return pack_elements(src, box, dense);
}

std::int64_t unpack_copy(const float* dense, const Box& box, View dst) {
  return copy_elements(dense, box, dst);
}

std::int64_t unpack_add(const float* dense, const Box& box, View dst) {
  return add_elements(dense, box, dst);
}

void fill(View dst, const Box& box, float value) {
  for_each_row(dst, box, [value](float* to, std::int64_t, std::int64_t length) {
    std::fill_n(to, length, value);
  });
}

std::int64_t pack(AnyConstView src, const Box& box, std::byte* dense) {
  if constexpr (simulation::kOn) return simulate_copy(src, box);
  return with_type(src.type, [&](auto element) {
    using T = decltype(element);
    return pack_elements(src.as<T>(), box, reinterpret_cast<T*>(dense));  // NOLINT: as documented
  });
}

std::int64_t unpack_copy(const std::byte* dense, const Box& box, AnyView dst) {
  if constexpr (simulation::kOn) return simulate_copy(dst, box);
  return with_type(dst.type, [&](auto element) {
    using T = decltype(element);
    return copy_elements(reinterpret_cast<const T*>(dense), box, dst.as<T>());  // NOLINT
  });
}

std::int64_t unpack_add(const std::byte* dense, const Box& box, AnyView dst) {
  if constexpr (simulation::kOn) return simulate_copy(dst, box);
  return with_number(dst.type, [&](auto element) {
    using T = decltype(element);
    return add_elements(reinterpret_cast<const T*>(dense), box, dst.as<T>());  // NOLINT
  });
}

void pack(AnyConstView src, std::span<const DenseBox<std::byte>> boxes) {
  if constexpr (simulation::kOn) return simulate_copies(boxes, src);
  with_type(src.type, [&](auto element) {
    using T = decltype(element);
    for_rows_of_all(src.as<T>(), boxes, [](const T* from, T* to, std::int64_t length) {
      std::copy_n(from, length, to);
    });
    return 0;
  });
}

void unpack_copy(std::span<const DenseBox<const std::byte>> boxes, AnyView dst) {
  if constexpr (simulation::kOn) return simulate_copies(boxes, dst);
  with_type(dst.type, [&](auto element) {
    using T = decltype(element);
    for_rows_of_all(dst.as<T>(), boxes, [](T* to, const T* from, std::int64_t length) {
      std::copy_n(from, length, to);
    });
    return 0;
  });
}

void unpack_add(std::span<const DenseBox<const std::byte>> boxes, AnyView dst) {
  if constexpr (simulation::kOn) return simulate_copies(boxes, dst);
  with_number(dst.type, [&](auto element) {
    using T = decltype(element);
    for_rows_of_all(dst.as<T>(), boxes,
                    [](T* to, const T* from, std::int64_t length) { add_run(from, length, to); });
    return 0;
  });
}

std::int64_t add_box(AnyConstView src, const Box& box, AnyView dst) {
  if constexpr (simulation::kOn) return simulate_copy(dst, box);
  return with_number(dst.type, [&](auto element) {
    using T = decltype(element);
    const auto from = src.as<T>();
    const auto to = dst.as<T>();
    visit_runs(box, to.batch, has_all_channels(box, from, to), [&](const Run& run) {
      add_run(run.begin_in(from, box), run.length, run.begin_in(to, box));
    });
    return to.batch * box.volume();
  });
}

void clear(AnyView dst, const Box& box) {
  if constexpr (simulation::kOn) return static_cast<void>(simulate_copy(dst, box));
  with_type(dst.type, [&](auto element) {
    using T = decltype(element);
    for_each_row(dst.as<T>(), box,
                 [](T* to, std::int64_t, std::int64_t length) { std::fill_n(to, length, T{}); });
    return 0;
  });
}

}  // namespace halomesh
