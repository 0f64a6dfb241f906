// SPDX-License-Identifier: Apache-2.0
// Tensors of one rank: dense channels-last blocks labelled with the global box that they span.
// Must not depend on layers or on other parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "box.hpp"
#include "error.hpp"
#include "simulation.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/first_touch.hpp"

namespace halomesh {

/// Non-owning view of `batch` samples of the global box `span`, each dense in the order d,h,w,c
/// (ndhwc). Element (n, c, d, h, w) in global coordinates is at data[offset(n, c, d, h, w)].
template <class T>
struct TensorView {
  T* data = nullptr;
  Box span;
  std::int64_t batch = 0;

  std::int64_t sample_volume() const { return span.volume(); }
  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                      std::int64_t w) const {
    return (((n * span.extent(kD) + d - span.lo[kD]) * span.extent(kH) + h - span.lo[kH]) *
                span.extent(kW) +
            w - span.lo[kW]) *
               span.extent(kC) +
           c - span.lo[kC];
  }
  T& at(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) const {
    return data[offset(n, c, d, h, w)];
  }
  /// The first element of `box`, which must lie inside `span`, in sample n.
  T* begin_of(std::int64_t n, const Box& box) const {
    return data + offset(n, box.lo[kC], box.lo[kD], box.lo[kH], box.lo[kW]);
  }
  /// True when `box` is one contiguous range of memory within a sample: whole rows of the span.
  bool is_dense(const Box& box) const {
    return span.contains(box) && box.extent(kC) == span.extent(kC) &&
           ((box.extent(kH) == span.extent(kH) && box.extent(kW) == span.extent(kW)) ||
            (box.extent(kD) == 1 && (box.extent(kW) == span.extent(kW) || box.extent(kH) == 1)));
  }
  operator TensorView<const T>() const  // NOLINT(google-explicit-constructor): adds const only
      requires(!std::is_const_v<T>) {
    return {data, span, batch};
  }
};

using View = TensorView<float>;
using ConstView = TensorView<const float>;

/// A TensorView whose element type is known at run time only. `Byte` is std::byte or const
/// std::byte. Made from any TensorView; as<T>() gives it back.
template <class Byte>
struct TypedView {
  Byte* data = nullptr;
  DataType type = DataType::kFloat32;
  Box span;
  std::int64_t batch = 0;

  template <class T>
  using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  TypedView() = default;
  TypedView(Byte* memory, DataType of_type, const Box& box, std::int64_t samples)
      : data(memory), type(of_type), span(box), batch(samples) {}
  template <class T>
  TypedView(TensorView<T> view)  // NOLINT(google-explicit-constructor): loses nothing
      requires(std::is_const_v<Byte> || !std::is_const_v<T>)
      : data(reinterpret_cast<Byte*>(view.data)),  // NOLINT: bytes of the same memory
        type(DataTypeOf<std::remove_const_t<T>>::kType),
        span(view.span),
        batch(view.batch) {}
  operator TypedView<const std::byte>() const  // NOLINT(google-explicit-constructor): adds const
      requires(!std::is_const_v<Byte>) {
    return {data, type, span, batch};
  }

  /// Throws Error unless T is the type of the elements.
  template <class T>
  TensorView<Element<T>> as() const {
    if (type != DataTypeOf<T>::kType)
      throw Error(
          fmt::format("a tensor of {} used as {}", name_of(type), name_of(DataTypeOf<T>::kType)),
          "this is an error of the program; report it with the options of the run");
    return {reinterpret_cast<Element<T>*>(data), span, batch};  // NOLINT: checked above
  }
  std::int64_t sample_bytes() const { return span.volume() * size_of(type); }
  /// See TensorView::begin_of() and is_dense().
  Byte* begin_of(std::int64_t n, const Box& box) const {
    const TensorView<char> shape{nullptr, span, batch};
    return data + size_of(type) * shape.offset(n, box.lo[kC], box.lo[kD], box.lo[kH], box.lo[kW]);
  }
  bool is_dense(const Box& box) const {
    return TensorView<char>{nullptr, span, batch}.is_dense(box);
  }
};

using AnyView = TypedView<std::byte>;
using AnyConstView = TypedView<const std::byte>;

/// Zeroed (by clear_by_threads()), 64-byte aligned memory that this object owns (move-only); its
/// start is aligned to cache lines and SVE/AVX-512 vectors. In a simulation all large blocks of all
/// ranks are one shared block without meaningful content. See also CountedMemory.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t size) {
    if (allocate(size)) clear_by_threads(data_.get(), static_cast<std::size_t>(size_) * sizeof(T));
  }
  /// Memory that was never written: the caller clears it, block by block.
  static AlignedBuffer untouched(std::int64_t size) {
    AlignedBuffer buffer;
    buffer.allocate(size);
    return buffer;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  std::span<T> span() { return {data(), static_cast<std::size_t>(size_)}; }
  std::span<const T> span() const { return {data(), static_cast<std::size_t>(size_)}; }

 private:
  static constexpr std::size_t kAlignment = 64;
  // Whether the memory is new.
  bool allocate(std::int64_t size) {
    size_ = size;
    if (size_ == 0) return false;
    const std::size_t bytes = static_cast<std::size_t>(size_) * sizeof(T);
    if constexpr (simulation::kOn)
      if (void* const shared = simulation::shared_memory(bytes)) {
        data_.reset(static_cast<T*>(shared));
        return false;
      }
    if (CountedMemory::on()) {
      data_.reset(static_cast<T*>(CountedMemory::reserve(bytes)));
      return false;
    }
    data_.reset(static_cast<T*>(::operator new (bytes, std::align_val_t{kAlignment})));
    return true;
  }
  struct Free {
    void operator()(T* p) const {
      if (CountedMemory::release(p)) return;
      if constexpr (simulation::kOn)
        if (simulation::is_shared(p)) return;
      ::operator delete (p, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

/// Owns the memory of a view (zeroed at construction).
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Box& span, std::int64_t batch, DataType type = DataType::kFloat32)
      : buffer_(span.volume() * batch * size_of(type)), view_(buffer_.data(), type, span, batch) {}
  /// The view of a tensor of fp32.
  View view() const { return view_.as<float>(); }
  AnyView any_view() const { return view_; }

 private:
  AlignedBuffer<std::byte> buffer_;
  AnyView view_;
};

}  // namespace halomesh
