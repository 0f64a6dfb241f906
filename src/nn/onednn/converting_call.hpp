// SPDX-License-Identifier: Apache-2.0
// A prepared call of a primitive in the library's own layouts: the caller's dense data are
// reordered before and after it. Private to src/nn/onednn/onednn*: no other file includes it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/nn/onednn/call.hpp"
#include "src/nn/onednn/own_memory.hpp"

namespace halomesh::onednn {

// Data that the caller passes at each run: its layout, and the primitive's.
struct DataArgument {
  int argument;
  bool written;  // written by the primitive, not read
  memory::desc caller, primitive;
};

// A call that reorders where layouts differ; otherwise it costs no more than a Call.
class ConvertingCall {
 public:
  // `parameters` are the other arguments, bound to data in the primitive's layout.
  template <class Description>
  ConvertingCall(const Library& lib, const std::string& name, dnnl::primitive primitive,
                 const Description& pd, const std::vector<DataArgument>& data,
                 const std::vector<std::pair<int, memory::desc>>& parameters)
      : call_(lib, name, std::move(primitive), pd, parameters) {
    for (const DataArgument& argument : data) {
      call_.add(lib, argument.argument, argument.primitive);
      if (argument.caller == argument.primitive) continue;
      const memory::desc& from = argument.written ? argument.primitive : argument.caller;
      const memory::desc& to = argument.written ? argument.caller : argument.primitive;
      conversions_.push_back({argument.argument, argument.written,
                              whole_lines(static_cast<std::int64_t>(argument.primitive.get_size())),
                              make_reorder(lib, from, to)});
    }
  }

  // See Call::bind().
  ConvertingCall& bind(int argument, const void* data) {
    for (Conversion& c : conversions_)
      if (c.argument == argument) {
        c.reorder.bind(c.written ? DNNL_ARG_DST : DNNL_ARG_SRC, data);
        return *this;
      }
    call_.bind(argument, data);
    return *this;
  }
  void run(const Library& lib) const {
    for (const Conversion& c : conversions_)
      if (!c.written) c.reorder.run(lib);
    call_.run(lib);
    for (const Conversion& c : conversions_)
      if (c.written) c.reorder.run(lib);
  }

  // The scratch bytes of the copies in the primitive's layout, of the primitive and of the
  // reorders.
  std::int64_t scratchpad_bytes() const {
    std::int64_t copies = 0, bytes = call_.scratchpad_bytes();
    for (const Conversion& c : conversions_) {
      copies += c.bytes;
      bytes = std::max(bytes, c.reorder.scratchpad_bytes());
    }
    return copies + bytes;
  }
  void bind_scratchpad(std::byte* at) {
    for (Conversion& c : conversions_) {
      call_.bind(c.argument, at);
      c.reorder.bind(c.written ? DNNL_ARG_SRC : DNNL_ARG_DST, at);
      at += c.bytes;
    }
    call_.bind_scratchpad(at);
    for (Conversion& c : conversions_) c.reorder.bind_scratchpad(at);
  }

 private:
  struct Conversion {
    int argument;
    bool written;
    std::int64_t bytes;
    Call reorder;
  };
  Call call_;
  std::vector<Conversion> conversions_;
};

// Whether the library has only plain loops, possibly around a matrix product.
inline bool is_reference(std::string_view implementation) {
  return implementation.find("ref") != std::string_view::npos;
}

// Whether this kernel is known to compute wrong results for this geometry: kernels of oneDNN 3.7.2
// that failed our tests, similar to github.com/uxlfoundation/oneDNN/issues/5080.
inline bool is_wrong(std::string_view implementation, const ConvolutionGeometry& g) {
#if DNNL_VERSION_MAJOR >= 3
  if (implementation.starts_with("brg_conv_fwd")) return g.src.c == 1;
  if (!implementation.starts_with("jit_bf16")) return false;
  const Spatial extents = g.src.spatial();
  for (std::size_t a = 0; a < 3; ++a)
    if (std::max(g.pad_before[a], g.pad_after[a]) > extents[a]) return true;
#else
  (void)implementation, (void)g;
#endif
  return false;
}

// The description that make(layout) gives for adjacent channels or, where that has only a reference
// kernel, for the library's own layout if it has a better one: SVE kernels only support blocks of
// channels. The first kernel that is not known to be wrong and for which may_use(description,
// number, layout) holds.
template <class Make, class MayUse>
auto describe_best(std::string_view name, bool own_layout, const ConvolutionGeometry& g,
                   const Make& make, const MayUse& may_use) -> decltype(make(Tag::any)) {
  const auto make_right = [&](Tag layout) {
    return first_right(name, make(layout), [&](const auto& pd, int number) {
      return !is_wrong(pd.impl_info_str(), g) && may_use(pd, number, layout);
    });
  };
  if (own_layout) return make_right(Tag::any);
  auto adjacent = make_right(Tag::ndhwc);
  if (!is_reference(adjacent.impl_info_str())) return adjacent;
  auto own = make_right(Tag::any);
  return is_reference(own.impl_info_str()) ? adjacent : own;
}

}  // namespace halomesh::onednn
