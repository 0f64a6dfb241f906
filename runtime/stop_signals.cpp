// Requests of the outside to stop: see stop_signals.hpp.
#include "runtime/stop_signals.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>

namespace halomesh {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGUSR1};

// Signal handlers can reach nothing but static storage.
volatile std::sig_atomic_t stop_requested = 0;
std::atomic<std::atomic<int>*> stop_answered = nullptr;

constexpr char kAnswer[] =
    "halomesh: told to stop by a signal: a checkpoint follows at the end of this step, unless the "
    "launcher kills the ranks first, as it does when one has died\n"
    "  cure: give the same command again to go on from the last checkpoint\n";

void request_stop(int) {
  stop_requested = 1;
  std::atomic<int>* const answered = stop_answered.load();
  if (answered == nullptr || answered->exchange(1) != 0) return;
  // write() is safe in a signal handler; whether anybody still reads cannot be mended here.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);
}

}  // namespace

StopSignals::StopSignals(std::atomic<int>* answered) {
  stop_requested = 0;
  stop_answered = answered;
  for (int number : kSignals) std::signal(number, request_stop);
}

StopSignals::~StopSignals() {
  // This rank fails and will say why; the launcher's signal to the others is then no news.
  if (std::atomic<int>* const answered = stop_answered.load();
      answered != nullptr && std::uncaught_exceptions() > 0)
    answered->store(1);
  for (int number : kSignals) std::signal(number, SIG_DFL);
  stop_answered = nullptr;
}

bool StopSignals::requested() const { return stop_requested != 0; }

}  // namespace halomesh
