// SPDX-License-Identifier: Apache-2.0
// Signals that ask a process to stop: recorded, named, and restored afterwards.
#include "runtime/posix/stop_signals.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace halomesh {
namespace {

void (*handler_of(int number))(int) {
  struct sigaction action {};
  REQUIRE(::sigaction(number, nullptr, &action) == 0);
  return action.sa_handler;
}

TEST_CASE("stop signals: each sets the flag and is named") {
  int checked = 0;
  for (const auto& [number, name] : {std::pair{SIGTERM, "SIGTERM"},
                                     {SIGINT, "SIGINT"},
                                     {SIGHUP, "SIGHUP"},
                                     {SIGXCPU, "SIGXCPU"},
                                     {SIGUSR2, "SIGUSR2"}}) {
    StopSignals signals;
    CHECK(!signals.requested());
    CHECK(!signals.take_report_request());
    CHECK(signals.name() == "a signal");
    ::raise(number);
    CHECK(signals.requested());
    CHECK(signals.name() == name);
    CHECK(!signals.take_report_request());
    ++checked;
  }
  CHECK(checked == 5);
}

TEST_CASE("stop signals: what nohup ignores stays ignored, and handlers are restored") {
  auto* const hup = ::signal(SIGHUP, SIG_IGN);
  auto* const term = ::signal(SIGTERM, SIG_IGN);
  {
    const StopSignals signals;
    ::raise(SIGHUP);
    CHECK(!signals.requested());
    ::raise(SIGTERM);  // a script's trap '' TERM is only for the script
    CHECK(signals.requested());
  }
  CHECK((handler_of(SIGHUP) == SIG_IGN));
  CHECK((handler_of(SIGTERM) == SIG_IGN));
  ::signal(SIGHUP, hup);
  ::signal(SIGTERM, term);
}

TEST_CASE("stop signals: one of those that share a flag answers") {
  std::atomic<int> answered = 0;
  const StopSignals signals(&answered, "ending this test");
  ::raise(SIGUSR2);
  CHECK(answered == 1);
  ::raise(SIGUSR2);
  CHECK(answered == 1);
}

TEST_CASE("stop signals: SIGUSR1 asks for one report and stops nothing") {
  auto* const before = handler_of(SIGUSR1);
  {
    StopSignals signals;
    ::raise(SIGUSR1);
    ::raise(SIGUSR1);
    CHECK(signals.take_report_request());
    CHECK(!signals.take_report_request());
    CHECK(!signals.requested());
    ::raise(SIGUSR1);
  }
  CHECK((handler_of(SIGUSR1) == before));
  StopSignals later;
  CHECK(!later.take_report_request());
}

TEST_CASE("stop signals: after the last work they are ignored, also when the object has ended") {
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const StopSignals signals;
      StopSignals::ignore_from_now_on();
      ::raise(SIGTERM);
    }
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGUSR2, SIGUSR1}) ::raise(number);
    ::_exit(7);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace halomesh
