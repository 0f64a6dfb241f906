// SPDX-License-Identifier: Apache-2.0
// The choice between instruction sets: see isa_kernels.hpp. The build defines HALOMESH_WITH_... for
// the instruction sets above the baseline that it compiles.
#include "src/nn/kernels/isa_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "error.hpp"

namespace halomesh {

// The tables of isa_table.cpp, one per instruction set that it is compiled for.
inline namespace isa_baseline {
extern const IsaKernels kIsaKernels;
}
#if defined(HALOMESH_WITH_avx512_bf16)
namespace isa_avx512_bf16 {
extern const IsaKernels kIsaKernels;
}
#endif
#if defined(HALOMESH_WITH_avx512)
namespace isa_avx512 {
extern const IsaKernels kIsaKernels;
}
#endif
#if defined(HALOMESH_WITH_avx2)
namespace isa_avx2 {
extern const IsaKernels kIsaKernels;
}
#endif

namespace {

constexpr std::array kBuilt = {
#if defined(HALOMESH_WITH_avx512_bf16)
    &isa_avx512_bf16::kIsaKernels,
#endif
#if defined(HALOMESH_WITH_avx512)
    &isa_avx512::kIsaKernels,
#endif
#if defined(HALOMESH_WITH_avx2)
    &isa_avx2::kIsaKernels,
#endif
    &kIsaKernels};

// Whether the CPU has everything that the flags of the build (Makefile, ISA_FLAGS) let the compiler
// use.
bool cpu_has([[maybe_unused]] std::string_view isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == "avx2") return avx2;
  if (isa == "avx512") return avx512;
  if (isa == "avx512-bf16") return avx512 && __builtin_cpu_supports("avx512bf16");
#endif
  return false;
}

bool is_called(const IsaKernels& kernels, const std::string& name) {
  return name == kernels.isa || (kernels.is_baseline && name == "baseline");
}

std::string built_names() {
  std::string names;
  for (const IsaKernels* kernels : kBuilt)
    names += (names.empty() ? "" : ", ") + std::string(kernels->isa);
  return names;
}

}  // namespace

std::span<const IsaKernels* const> built_isa_kernels() { return kBuilt; }

bool cpu_runs(const IsaKernels& kernels) { return kernels.is_baseline || cpu_has(kernels.isa); }

const IsaKernels& choose_isa_kernels(const std::string& name) {
  const auto* const found = std::find_if(kBuilt.begin(), kBuilt.end(), [&](const auto* kernels) {
    return name.empty() ? cpu_runs(*kernels) : is_called(*kernels, name);
  });
  if (found == kBuilt.end())
    throw UsageError(fmt::format("HALOMESH_ISA={}: this program has no such kernels", name),
                     fmt::format("it has {}, the last also as baseline; or unset it, and the best "
                                 "for this CPU are used",
                                 built_names()));
  if (!cpu_runs(**found))
    throw UsageError(fmt::format("HALOMESH_ISA={}: this CPU lacks {}", name, (*found)->isa),
                     "unset it, and the best kernels for this CPU are used");
  return **found;
}

const IsaKernels& isa_kernels() {
  static const IsaKernels& chosen = [&]() -> const IsaKernels& {
    const char* const name = std::getenv("HALOMESH_ISA");  // NOLINT: no thread changes it
    return choose_isa_kernels(name == nullptr ? "" : name);
  }();
  return chosen;
}

}  // namespace halomesh
