// SPDX-License-Identifier: Apache-2.0
// When a job is repeated: only if the launcher itself crashed at its end, never for a rank.
#include <doctest/doctest.h>

#include "test/system/job.hpp"

namespace halomesh::test {

TEST_CASE("a crash is the launcher's only if no other process reports one") {
  const std::string trained = "step 30 loss 0.1\n[n1:41] 1 more process has sent help message\n";
  const auto crash = [](int pid, const std::string& frame) {
    const std::string head = "[n1:" + std::to_string(pid) + "] ";
    return head + "*** Process received signal ***\n" + head + "Signal: Segmentation fault (11)\n" +
           head + "[ 1] " + frame + "\n" + head + "*** End of error message ***\n";
  };
  const std::string finalize = "/lib/libpmix.so.2(PMIx_server_finalize+0x9c1)[0x7f50]";
  const std::string ours = "build/halomesh(_ZN8halomesh8Executor7forwardEv+0x1f)[0x55d0]";
  CHECK(reports_launcher_crash(trained + crash(41, finalize), 41));
  CHECK_FALSE(reports_launcher_crash(trained, 41));
  CHECK_FALSE(reports_launcher_crash(trained + crash(41, ours), 41));
  CHECK_FALSE(reports_launcher_crash(trained + crash(42, finalize), 41));
  CHECK_FALSE(reports_launcher_crash(trained + crash(42, ours) + crash(41, finalize), 41));
  CHECK_FALSE(reports_launcher_crash(trained + crash(41, finalize) + crash(42, ours), 41));
  CHECK_FALSE(reports_launcher_crash(crash(141, finalize), 41));
}

}  // namespace halomesh::test
