// SPDX-License-Identifier: Apache-2.0
// One prepared call of a oneDNN primitive, and its helpers, for versions 2.5 to 3.x of the library.
// Private to src/nn/onednn/onednn*: no other file includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "src/nn/counted_memory.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh::onednn {

using dnnl::memory;
using Tag = memory::format_tag;

// Converts the library's exceptions to Error; `what` is called only then.
template <class What, class Body>
auto guarded(const What& what, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& e) {
    const char* hint = "this version of the library has no such kernel: try a newer oneDNN";
    if (e.status == dnnl_out_of_memory) hint = "cut the sample into more parts or use more nodes";
    if (e.status == dnnl_invalid_arguments) hint = "check the layer's kernel, stride and padding";
    throw Error(fmt::format("oneDNN {}, {}: {} (status {})", onednn_version(), what(), e.what(),
                            static_cast<int>(e.status)),
                hint);
  }
}

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive_attr attr;
  Library() { attr.set_scratchpad_mode(dnnl::scratchpad_mode::user); }
  // Keeps a copy of data to which a primitive descriptor only points and which next_impl() reads.
  template <class T>
  const T& kept(T value) const {
    auto copy = std::make_shared<const T>(std::move(value));
    const T& reference = *copy;
    kept_.push_back(std::move(copy));
    return reference;
  }

 private:
  mutable std::vector<std::shared_ptr<const void>> kept_;
};

// Describes a primitive: version 3 dropped operation descriptors, and primitive descriptors take
// their arguments themselves.
template <class Primitive, class... Args>
typename Primitive::primitive_desc describe(const Library& lib, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {lib.engine, args..., lib.attr};
#else
  return {lib.kept(typename Primitive::desc(args...)), lib.attr, lib.engine};
#endif
}
template <class Primitive, class Forward, class... Args>
typename Primitive::primitive_desc describe_backward(const Library& lib, const Forward& forward,
                                                     const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {lib.engine, args..., lib.kept(forward), lib.attr};
#else
  return {lib.kept(typename Primitive::desc(args...)), lib.attr, lib.engine, lib.kept(forward)};
#endif
}

// A primitive with the memory objects of its arguments, created beforehand; runs through the C API
// because the C++ execute() builds a vector each time.
class Call {
 public:
  template <class Description>
  Call(const Library& lib, std::string name, dnnl::primitive primitive, const Description& pd,
       const std::vector<std::pair<int, memory::desc>>& arguments)
      : name_(std::move(name)),
        primitive_(std::move(primitive)),
        scratchpad_bytes_(static_cast<std::int64_t>(pd.scratchpad_desc().get_size())) {
    for (const auto& [argument, desc] : arguments) add(lib, argument, desc);
    add(lib, DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  }
  // Adds one more argument, not yet bound to data.
  void add(const Library& lib, int argument, const memory::desc& desc) {
    memories_.emplace_back(desc, lib.engine, nullptr);
    arguments_.push_back({argument, memories_.back().get()});
  }
  // Binds data, of which the caller keeps ownership; the library does not write to arguments that
  // are only read.
  Call& bind(int argument, const void* data) {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i].arg == argument) memories_[i].set_data_handle(const_cast<void*>(data));
    return *this;
  }
  void run(const Library& lib) const {
    guarded([this] { return "running " + name_; },
            [&] {
              dnnl::error::wrap_c_api(
                  dnnl_primitive_execute(primitive_.get(), lib.stream.get(),
                                         static_cast<int>(arguments_.size()), arguments_.data()),
                  "could not execute a primitive");
              dnnl::error::wrap_c_api(dnnl_stream_wait(lib.stream.get()), "could not wait");
            });
  }
  std::int64_t scratchpad_bytes() const { return scratchpad_bytes_; }
  void bind_scratchpad(std::byte* at) { bind(DNNL_ARG_SCRATCHPAD, at); }

 private:
  std::string name_;
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::int64_t scratchpad_bytes_;
};

// Makes a primitive. Nothing is compiled where memory is only counted: such a call cannot run.
template <class Primitive, class Description>
dnnl::primitive make_primitive(const Description& pd) {
  return CountedMemory::on() ? dnnl::primitive() : Primitive(pd);
}

inline Call make_reorder(const Library& lib, const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc pd(lib.engine, from, lib.engine, to, lib.attr);
  return {lib,
          "weight reorder",
          make_primitive<dnnl::reorder>(pd),
          pd,
          {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}};
}

// The bytes of a scratchpad for any of these calls, which never run at the same time.
template <class Calls>
std::int64_t most_scratchpad_bytes(const Calls& calls) {
  std::int64_t bytes = 0;
  for (const auto& call : calls) bytes = std::max(bytes, call.scratchpad_bytes());
  return bytes;
}

// The bytes rounded up to whole cache lines.
inline std::int64_t whole_lines(std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

inline void add_name(std::vector<std::string>& names, const std::string& role, const char* impl) {
  const std::string name = role + ' ' + impl;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

inline memory::desc plain(const memory::dims& dims, Tag tag, DataType type = DataType::kFloat32) {
  const bool half = type == DataType::kBfloat16;
  return {dims, half ? memory::data_type::bf16 : memory::data_type::f32, tag};
}

}  // namespace halomesh::onednn
