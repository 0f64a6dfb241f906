// SPDX-License-Identifier: Apache-2.0
// Facts from the oneDNN library about itself and this CPU: see onednn_library.hpp.
#include "src/nn/onednn/library.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <string>

#include "error.hpp"

namespace halomesh {

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

// An instruction set is a set of bits that contains those of the sets below it.
std::string cpu_isa_name() {
  struct Name {
    int isa;
    const char* name;
  };
#if defined(__aarch64__)
  // The library's header names only the sets of x86-64 and reuses their bits; these are from
  // oneDNN's src/cpu/aarch64/cpu_isa_traits.hpp.
  constexpr Name kNames[] = {{0x1f, "sve_512"}, {0x07, "sve_256"}, {0x03, "sve_128"}, {1, "asimd"}};
#else
  constexpr Name kNames[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
                             {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                             {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                             {dnnl_cpu_isa_avx512_core, "avx512_core"},
                             {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
                             {dnnl_cpu_isa_avx2, "avx2"},
                             {dnnl_cpu_isa_avx, "avx"},
                             {dnnl_cpu_isa_sse41, "sse41"}};
#endif
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  for (const Name& entry : kNames)
    if ((isa & static_cast<unsigned>(entry.isa)) == static_cast<unsigned>(entry.isa))
      return entry.name;
  return "generic";
}

namespace {

// Whether the library may use all of an instruction set of x86-64.
[[maybe_unused]] bool may_use(dnnl_cpu_isa_t isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

#if defined(__aarch64__)
bool cpu_computes_bf16() { return false; }
bool cpu_has_wide_vectors() { return true; }
bool cpu_has_matrix_unit() { return false; }
#else
bool cpu_computes_bf16() { return may_use(dnnl_cpu_isa_avx512_core_bf16); }
bool cpu_has_wide_vectors() { return may_use(dnnl_cpu_isa_avx512_core); }
bool cpu_has_matrix_unit() { return may_use(dnnl_cpu_isa_avx512_core_amx); }
#endif

// Decided by rates that `bench` measures: two threads of a Zen 5 (EPYC) reach 890 GF/s with dot
// products and 480 with multiply-adds, two threads of a Xeon without a matrix unit 177 and 358.
bool cpu_has_fast_dots() {
#if defined(__x86_64__)
  return cpu_computes_bf16() && __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

double products_at_once(DataType compute) {
  if (compute != DataType::kBfloat16) return 1;
  return cpu_has_matrix_unit() ? 16 : cpu_has_fast_dots() ? 2 : 1;
}

DataType fastest_products(DataType compute) {
  return products_at_once(compute) > 1 ? compute : DataType::kFloat32;
}

}  // namespace halomesh
