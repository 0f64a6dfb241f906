// Requests of the outside to stop: see stop_signals.hpp.
#include "runtime/stop_signals.hpp"

#include <array>
#include <csignal>

namespace halomesh {
namespace {

constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGUSR1};

// Signal handlers can reach nothing but static storage.
volatile std::sig_atomic_t stop_requested = 0;

void request_stop(int) { stop_requested = 1; }

}  // namespace

StopSignals::StopSignals() {
  stop_requested = 0;
  for (int number : kSignals) std::signal(number, request_stop);
}

StopSignals::~StopSignals() {
  for (int number : kSignals) std::signal(number, SIG_DFL);
}

bool StopSignals::requested() const { return stop_requested != 0; }

}  // namespace halomesh
