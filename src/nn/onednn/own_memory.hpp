// SPDX-License-Identifier: Apache-2.0
// Trials of the library's kernels: whether a kernel computes correctly and keeps to its own memory.
// Private to src/nn/onednn/onednn* and its test: no other file includes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/nn/convolution_geometry.hpp"
#include "src/nn/onednn/call.hpp"

namespace halomesh::onednn {

// An argument of a kernel: its fp32 elements in the order voxel,channel or out,in,tap, and its own
// layout, with elements of `type`.
struct TriedArgument {
  int argument;
  memory::desc plain, layout;
  DataType type = DataType::kFloat32;
};

// A kernel to try, as a pass of a convolution; the rows of a matrix are its voxels.
struct KernelTrial {
  enum class Pass { kForward, kBackwardData, kBackwardWeights };

  std::string name;  // the primitive and its shapes, for errors
  Pass pass;
  ConvolutionGeometry geometry;
  TriedArgument src, weights, dst;  // or their gradients
  std::optional<TriedArgument> bias{};
  bool adds = false;  // to the contents of the memory that it writes
};

inline const char* name_of(KernelTrial::Pass pass) {
  using enum KernelTrial::Pass;
  return pass == kForward        ? "forward"
         : pass == kBackwardData ? "backward_data"
                                 : "backward_weights";
}

// The addresses of src, weights, dst, bias and scratchpad; null without a bias.
using TrialMemory = std::array<std::byte*, 5>;

// Runs the kernel three times with NaN in all memory around its arguments, in the memory that it
// writes and in its scratchpad. Returns whether its results are exact each time and the memory
// around them, and all that it reads, stays unchanged. Arguments are outer products of small
// integers, so that the results are known without a convolution. Meanwhile takes about twice the
// memory of the arguments.
bool keeps_to_own_memory(const Library& lib, const KernelTrial& trial,
                         std::int64_t scratchpad_bytes,
                         const std::function<void(const TrialMemory&)>& run);

// While an object exists, other kernels are tried, for tests.
class TriedKernels {
 public:
  // Decides by the names of the kernel and of its trial, and its verdict, whether it is used.
  using Judge =
      std::function<bool(std::string_view implementation, std::string_view trial, bool right)>;
  // Tries kernels whose names contain `part`.
  TriedKernels(std::string part, Judge judge);
  ~TriedKernels();
  TriedKernels(const TriedKernels&) = delete;
  TriedKernels& operator=(const TriedKernels&) = delete;

  // Whether to use this kernel: true without a trial if its name shows that it can be trusted,
  // otherwise the result of try_it() for this trial, bytes of arguments and number of threads in
  // this process.
  static bool may_use(std::string_view implementation, int number, std::string_view trial,
                      std::int64_t bytes, const std::function<bool()>& try_it);

 private:
  std::string part_;
  Judge judge_;
  const TriedKernels* before_;
};

// Whether the kernel that `pd` describes may be used. It is the library's number `number`, since
// several have one name. `Primitive` is its type.
template <class Primitive, class Description>
bool may_use_kernel(const Library& lib, const Description& pd, int number,
                    const KernelTrial& trial) {
  std::vector<std::pair<int, memory::desc>> arguments;
  std::int64_t bytes = 0;
  for (const TriedArgument* argument :
       {&trial.src, &trial.weights, &trial.dst, trial.bias ? &*trial.bias : nullptr})
    if (argument != nullptr) {
      arguments.emplace_back(argument->argument, argument->layout);
      bytes += static_cast<std::int64_t>(argument->layout.get_size());
    }
  const auto try_it = [&] {
    Call call(lib, trial.name, Primitive(pd), pd, arguments);
    return keeps_to_own_memory(lib, trial, call.scratchpad_bytes(), [&](const TrialMemory& at) {
      for (std::size_t i = 0; i < arguments.size(); ++i) call.bind(arguments[i].first, at[i]);
      call.bind_scratchpad(at.back());
      call.run(lib);
    });
  };
  return TriedKernels::may_use(pd.impl_info_str(), number, trial.name, bytes, try_it);
}

// The first description, starting from `pd`, for which may_use(pd, number) holds.
template <class Description, class MayUse>
Description first_right(std::string_view name, Description pd, const MayUse& may_use) {
  std::string wrong;
  for (int number = 0; !may_use(pd, number); ++number) {
    wrong += wrong.empty() ? pd.impl_info_str() : std::string(", ") + pd.impl_info_str();
    if (!pd.next_impl())
      throw Error(fmt::format("oneDNN {} has no correct kernel for {}, only {}", onednn_version(),
                              name, wrong),
                  "use oneDNN 2.5 to 2.7");
  }
  return pd;
}

}  // namespace halomesh::onednn
