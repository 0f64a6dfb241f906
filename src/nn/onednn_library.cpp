// What the oneDNN library says of itself and of this CPU: see onednn.hpp.
#include <oneapi/dnnl/dnnl.h>

#include <string>

#include "error.hpp"
#include "src/nn/onednn.hpp"

namespace halomesh {

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return cat(v->major, '.', v->minor, '.', v->patch);
}

// An instruction set is a set of bits that contains those of the sets below it.
std::string cpu_isa_name() {
  struct Name {
    dnnl_cpu_isa_t isa;
    const char* name;
  };
  constexpr Name kNames[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
                             {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                             {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                             {dnnl_cpu_isa_avx512_core, "avx512_core"},
                             {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
                             {dnnl_cpu_isa_avx2, "avx2"},
                             {dnnl_cpu_isa_avx, "avx"},
                             {dnnl_cpu_isa_sse41, "sse41"}};
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  for (const Name& entry : kNames)
    if ((isa & static_cast<unsigned>(entry.isa)) == static_cast<unsigned>(entry.isa))
      return entry.name;
  return "generic";
}

bool cpu_computes_bf16() {
  constexpr auto kBits = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kBits) == kBits;
}

}  // namespace halomesh
