// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the records of an earlier run as resuming reads them. The first byte of an input
// says which of them the rest is, and where training stands.
#include "runtime/log/metrics.hpp"
#include "runtime/log/mllog.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {
namespace {

/// Opens the file twice: what the first has left is to be read as well.
void resume_metrics(std::int64_t last_step, Bytes file) {
  const auto path = scratch().put("metrics.jsonl", file);
  for (int again = 0; again < 2; ++again)
    attempt([&] {
      MetricsLog log(path, last_step);
      log.step({last_step + 1, 1, 0.5, 0.1, 1.0});
    });
}

void resume_mllog(MlperfVersion version, const MlperfPoint& point, Bytes file) {
  const auto path = scratch().put("mllog.txt", file);
  for (int again = 0; again < 2; ++again)
    attempt([&] {
      MlperfLog log(version);
      log.init_start(false);
      log.run_start();
      log.open(path, point);
      log.epoch_start(point.epoch, point.step);
      log.epoch_stop(point.epoch, point.step);
      log.run_stop(true);
    });
}

}  // namespace
}  // namespace halomesh::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh;
  if (size == 0) return 0;
  const fuzz::Bytes rest(data + 1, size - 1);
  const unsigned kind = data[0] % 4U, bits = data[0] / 4U;
  switch (kind) {
    case 0:
    case 1:
      fuzz::resume_metrics(bits % 8, rest);
      break;
    default:
      fuzz::resume_mllog(kind == 2 ? MlperfVersion::kV07 : MlperfVersion::kV10,
                         {bits % 4, bits / 4 % 4, (bits & 16U) != 0, false, (bits & 32U) != 0},
                         rest);
  }
  return 0;
}
