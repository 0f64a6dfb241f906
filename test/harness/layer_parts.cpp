// SPDX-License-Identifier: Apache-2.0
// All parts of a cut layer in one process: see layer_parts.hpp.
#include "test/harness/layer_parts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "error.hpp"
#include "test/harness/in_process_exchange.hpp"

namespace halomesh {
namespace {

constexpr float kUnset = std::numeric_limits<float>::quiet_NaN();

// Calls visit(n, c, d, h, w) for each element of `box` of each sample.
template <class Visit>
void for_each_element(std::int64_t batch, const Box& box, Visit visit) {
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
      for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
        for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
          for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c) visit(n, c, d, h, w);
}

// Calls body(TensorView of the element type).
template <class AView, class Body>
void with_elements(const AView& view, const Body& body) {
  if (view.type == DataType::kFloat32) return body(view.template as<float>());
  if (view.type == DataType::kBfloat16) return body(view.template as<Bfloat16>());
  if (view.type == DataType::kFloat64) return body(view.template as<double>());
  body(view.template as<std::int16_t>());
}

// Values are rounded to the type of the view if necessary.
void scatter(const GlobalTensor& global, const Box& box, const AnyView& view) {
  with_elements(view, [&](auto typed) {
    using T = std::remove_pointer_t<decltype(typed.data)>;
    for_each_element(view.batch, box, [&](auto n, auto c, auto d, auto h, auto w) {
      if constexpr (std::is_same_v<T, double>)
        typed.at(n, c, d, h, w) = global.at(n, c, d, h, w);
      else
        typed.at(n, c, d, h, w) = T(static_cast<float>(global.at(n, c, d, h, w)));
    });
  });
}

void gather(const AnyConstView& view, const Box& box, const Shape& shape,
            std::vector<double>& global) {
  GlobalTensor index;
  index.shape = shape;
  with_elements(view, [&](auto typed) {
    for_each_element(view.batch, box, [&](auto n, auto c, auto d, auto h, auto w) {
      const auto value = typed.at(n, c, d, h, w);
      if constexpr (std::is_same_v<decltype(value), const double>)
        global[index.offset(n, c, d, h, w)] = value;
      else
        global[index.offset(n, c, d, h, w)] = static_cast<double>(static_cast<float>(value));
    });
  });
}

// Fills a box with NaN or, for types without it, with the largest count.
void unset(const AnyView& view, const Box& box) {
  with_elements(view, [&](auto typed) {
    using T = std::remove_pointer_t<decltype(typed.data)>;
    T value = std::numeric_limits<T>::max();
    if constexpr (!std::is_same_v<T, std::int16_t>) value = T(kUnset);
    for_each_element(view.batch, box, [&](auto n, auto c, auto d, auto h, auto w) {
      typed.at(n, c, d, h, w) = value;
    });
  });
}

// Fills the scratch memory of a layer with NaN: results of an earlier call must not be read.
void spoil(const Scratch& scratch) {
  const std::span<std::byte> memory = scratch.memory();
  std::fill(memory.begin(), memory.end(), std::byte{0xff});
}

std::vector<double> unset(std::size_t size) {
  return std::vector<double>(size, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void for_each_parameter_element(const ParameterGeometry& geometry, const ParameterSlice& slice,
                                const std::function<void(std::size_t, std::size_t)>& visit) {
  const Shape& in = geometry.in;
  std::size_t local = 0;
  for (std::int64_t out = slice.out.lo; out < slice.out.hi; ++out) {
    if (geometry.channels_last) {
      for_each_element(1, slice.in, [&](auto, auto c, auto d, auto h, auto w) {
        visit(local++,
              static_cast<std::size_t>((((out * in.d + d) * in.h + h) * in.w + w) * in.c + c));
      });
      continue;
    }
    for (std::int64_t c = slice.in.lo[kC]; c < slice.in.hi[kC]; ++c) {
      Box channel = slice.in;
      channel.lo[kC] = c;
      channel.hi[kC] = c + 1;
      for_each_element(1, channel, [&](auto, auto, auto d, auto h, auto w) {
        visit(local++,
              static_cast<std::size_t>((((out * in.c + c) * in.d + d) * in.h + h) * in.w + w));
      });
    }
  }
}

std::int64_t InProcessLink::copy(const TransferPlan& plan, const std::vector<AnyView>& views) {
  return InProcessExchange(plan).copy(views);
}

std::int64_t InProcessLink::add_back(const TransferPlan& plan, const std::vector<AnyView>& views) {
  return InProcessExchange(plan).add_back(views);
}

LayerParts::LayerParts(const LayerCase& test, const ReferenceInput& input, PartLink& link)
    : test_(test), input_(input), link_(link) {
  const std::unique_ptr<Layer> geometry = test.make_layer();
  cut_ = cut_layer(*geometry, test.cut);
  geometry_ = geometry->parameters(test.cut.src_shapes);
  for (std::size_t i = 0; i < cut_.contexts.size(); ++i) make_part(i);
}

void LayerParts::make_part(std::size_t index) {
  Part& part = parts_.emplace_back();
  if (!link_.runs(index)) {
    part.src.resize(cut_.src_owned.size());
    part.diff_src.resize(cut_.src_owned.size());
    return;
  }
  part.context = cut_.contexts[index];
  const std::int64_t batch = part.context.batch;
  for (std::size_t i = 0; i < part.context.src_spans.size(); ++i) {
    const Box& span = part.context.src_spans[i];
    part.src.emplace_back(span, batch, part.context.src_types[i]);
    part.diff_src.emplace_back(span, batch, part.context.src_types[i]);
    part.src_views.push_back(part.src.back().any_view());
  }
  part.dst = Tensor(part.context.dst_span, batch, part.context.dst_type);
  part.diff_dst = Tensor(part.context.dst_span, batch, part.context.dst_type);
  if (part.context.boxes.dst_produced.empty()) return;
  part.layer = test_.make_layer();
  prepare(part);
}

void LayerParts::prepare(Part& part) {
  part.values.resize(geometry_.size());
  part.diffs.resize(geometry_.size());
  std::vector<ParameterView> views;
  for (std::size_t p = 0; p < geometry_.size(); ++p) {
    const ParameterSlice slice =
        part.layer->parameter_slice(p, part.context.boxes, part.context.src_shapes);
    part.slices.push_back(slice);
    const auto size = static_cast<std::size_t>(slice.volume());
    part.values[p].resize(size);
    part.diffs[p].assign(size, kUnset);
    for_each_parameter_element(geometry_[p], slice, [&](std::size_t local, std::size_t global) {
      part.values[p][local] = static_cast<float>(input_.parameters[p][global]);
    });
    views.push_back({geometry_[p], slice, part.values[p], part.diffs[p]});
  }
  part.layer->prepare(part.context, std::move(views));
  spoil(part.context.scratch);
}

Box LayerParts::src_owned_here(std::size_t input, std::size_t part) const {
  return link_.runs(part) ? cut_.src_owned[input][part] : Box{};
}

void LayerParts::fill_src() {
  for (std::size_t part = 0; part < parts_.size(); ++part)
    for (std::size_t i = 0; i < cut_.src_owned.size(); ++i) {
      const AnyView view = parts_[part].src[i].any_view();
      unset(view, view.span);
      scatter(input_.src[i], src_owned_here(i, part), view);
    }
}

void LayerParts::run_chunks(bool remote) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    Part& p = parts_[part];
    for (std::size_t c = 0; c < p.context.dst_chunks.size(); ++c)
      if (cut_.chunk_needs_remote[part][c] == remote) {
        p.layer->forward(test_.pass, p.src_views, p.dst.any_view(), p.context.dst_chunks[c]);
        spoil(p.context.scratch);
      }
  }
}

// True if other parts add to elements that this one does not produce.
bool LayerParts::starts_at_zero(const Part& part) {
  return !part.context.boxes.dst_produced.contains(part.context.boxes.dst_owned);
}

// A layer may write only its produced box: the rest of the span belongs to the consumer's halo.
void LayerParts::check_untouched(const Part& part, GatheredStep& step) const {
  const Box& produced = part.context.boxes.dst_produced;
  const Box zeros = starts_at_zero(part) ? part.context.boxes.dst_owned : Box{};
  with_elements(part.dst.any_view(), [&](auto view) {
    for_each_element(view.batch, view.span, [&](auto n, auto c, auto d, auto h, auto w) {
      const Box element{{c, d, h, w}, {c + 1, d + 1, h + 1, w + 1}};
      const auto value = static_cast<float>(view.at(n, c, d, h, w));
      const bool untouched = zeros.contains(element) ? value == 0 : std::isnan(value);
      if (!untouched && !produced.contains(element))
        step.violations.push_back(fmt::format("forward wrote outside {} at {}", produced, element));
    });
  });
}

void LayerParts::forward(GatheredStep& step) {
  fill_src();
  std::vector<AnyView> dst_views;
  for (Part& part : parts_) {
    dst_views.push_back(part.dst.any_view());
    unset(part.dst.any_view(), part.context.dst_span);
    if (starts_at_zero(part)) clear(part.dst.any_view(), part.context.boxes.dst_owned);
    if (part.layer) part.layer->load_parameters();
    spoil(part.context.scratch);
  }
  run_chunks(false);
  for (std::size_t i = 0; i < cut_.src_plans.size(); ++i) {
    std::vector<AnyView> views;
    for (const Part& part : parts_) views.push_back(part.src[i].any_view());
    step.moved += link_.copy(cut_.src_plans[i], views);
  }
  run_chunks(true);
  for (const Part& part : parts_) check_untouched(part, step);
  step.moved += link_.add_back(cut_.partial_sums, dst_views);
  const Shape& shape = input_.diff_dst.shape;
  step.dst = unset(input_.diff_dst.values.size());
  for (const Part& part : parts_)
    gather(part.dst.any_view(), part.context.boxes.dst_owned, shape, step.dst);
}

// Within needed, backward_data() must write every element; an owned element outside it has gradient
// zero; nothing else may be read.
void LayerParts::fill_diffs(Part& part) {
  const auto index = static_cast<std::size_t>(&part - parts_.data());
  unset(part.diff_dst.any_view(), part.context.dst_span);
  scatter(input_.diff_dst, part.context.boxes.dst_owned, part.diff_dst.any_view());
  for (std::size_t i = 0; i < part.context.src_spans.size(); ++i) {
    const AnyView view = part.diff_src[i].any_view();
    unset(view, view.span);
    clear(view, cut_.src_owned[i][index]);
    unset(view, part.context.boxes.src_needed[i]);
  }
  for (std::vector<float>& diffs : part.diffs) diffs.assign(diffs.size(), kUnset);
}

void LayerParts::backward(GatheredStep& step) {
  std::vector<AnyView> diff_dst;
  for (Part& part : parts_) {
    fill_diffs(part);
    diff_dst.push_back(part.diff_dst.any_view());
  }
  step.moved += link_.copy(cut_.partial_sums, diff_dst);
  for (std::size_t i = 0; i < cut_.src_owned.size(); ++i) {
    std::vector<AnyView> views;
    for (Part& part : parts_) {
      const AnyView view = views.emplace_back(part.diff_src[i].any_view());
      if (!part.layer || !part.context.src_diff_wanted[i]) continue;
      // Unless a layer permits it, its input is overwritten with NaN.
      std::vector<AnyConstView> src;
      for (const Tensor& unset_diff : part.diff_src) src.push_back(unset_diff.any_view());
      if (part.layer->backward_reads_src()) src = part.src_views;
      part.layer->backward_data(test_.pass, {src, part.dst.any_view()}, part.diff_dst.any_view(), i,
                                view);
      spoil(part.context.scratch);
    }
    std::vector<double>& global = step.diff_src.emplace_back(unset(input_.src[i].values.size()));
    if (!test_.cut.src_diff_wanted) continue;
    step.moved += link_.add_back(cut_.src_plans[i], views);
    for (std::size_t part = 0; part < parts_.size(); ++part)
      gather(views[part], src_owned_here(i, part), input_.src[i].shape, global);
  }
  for (Part& part : parts_)
    if (part.layer)
      part.layer->backward_parameters(test_.pass, part.src_views, part.diff_dst.any_view());
  gather_parameters(step);
}

// Sums over the holders of each slice; elements that no part holds stay NaN.
void LayerParts::gather_parameters(GatheredStep& step) const {
  for (std::size_t p = 0; p < geometry_.size(); ++p) {
    auto& sum =
        step.diff_parameters.emplace_back(unset(static_cast<std::size_t>(geometry_[p].volume())));
    std::vector<ParameterSlice> seen;
    for (const Part& part : parts_) {
      if (!part.layer) continue;
      const ParameterSlice& slice = part.slices[p];
      for (const ParameterSlice& other : seen)
        if (slice != other && overlap(slice, other))
          step.violations.push_back(fmt::format("slices {} and {} overlap", slice, other));
      seen.push_back(slice);
      for_each_parameter_element(geometry_[p], slice, [&](std::size_t local, std::size_t global) {
        const auto diff = static_cast<double>(part.diffs[p][local]);
        if (std::isnan(diff) && step.violations.empty())
          step.violations.push_back(fmt::format("gradient {} of parameter {} is NaN", global, p));
        bool first = true;
        for (std::size_t s = 0; s + 1 < seen.size(); ++s) first = first && seen[s] != slice;
        sum[global] = first ? diff : sum[global] + diff;
      });
    }
  }
}

GatheredStep LayerParts::run_step() {
  GatheredStep step;
  forward(step);
  if (test_.cut.training) backward(step);
  return step;
}

}  // namespace halomesh
