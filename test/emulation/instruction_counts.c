/* SPDX-License-Identifier: Apache-2.0
 * A plugin of qemu-aarch64 that prints how many instructions a program has executed, and how many
 * of these were fp32 multiply-adds, loads and stores of SVE vectors. Debian has no qemu-plugin.h:
 * what is used of its interface, version 1, is declared here (QEMU, docs/devel/tcg-plugins.rst). */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { kInlineAdd = 0 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t, struct qemu_plugin_tb*));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int, void*, uint64_t);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*)(uint64_t, void*), void*);
void qemu_plugin_outs(const char*);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { kAll, kMultiplyAdds, kLoads, kStores, kKinds };
static uint64_t counts[kKinds];

/* Arm Architecture Reference Manual, "SVE encodings": the top level of 32-bit instruction words. */
static int kind_of(uint32_t word) {
  const uint32_t top = word >> 24;
  /* FMLA, FMLS, FMAD, FMSB and so on (predicated), and FMLA, FMLS (indexed). */
  if (top == 0x65 && (word >> 21 & 1) == 1) return kMultiplyAdds;
  if (top == 0x64 && (word >> 21 & 1) == 1 && (word >> 11 & 0x1f) == 0) return kMultiplyAdds;
  if (word >> 22 == 0x217) return kAll; /* a prefetch */
  if (top == 0x84 || top == 0x85 || top == 0xa4 || top == 0xa5 || top == 0xc4 || top == 0xc5)
    return kLoads;
  if (top == 0xe4 || top == 0xe5) return kStores;
  return kAll;
}

static void translate(uint64_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  uint64_t here[kKinds] = {0};
  const size_t size = qemu_plugin_tb_n_insns(tb);
  for (size_t i = 0; i < size; ++i) {
    uint32_t word;
    memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)), sizeof(word));
    const int kind = kind_of(word);
    ++here[kAll];
    if (kind != kAll) ++here[kind];
  }
  for (int k = 0; k < kKinds; ++k)
    if (here[k] != 0) qemu_plugin_register_vcpu_tb_exec_inline(tb, kInlineAdd, &counts[k], here[k]);
}

static void print(uint64_t id, void* unused) {
  (void)id, (void)unused;
  char line[128];
  snprintf(line, sizeof(line), "counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           counts[kAll], counts[kMultiplyAdds], counts[kLoads], counts[kStores]);
  qemu_plugin_outs(line);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void* info,
                                                               int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_atexit_cb(id, print, NULL);
  return 0;
}
