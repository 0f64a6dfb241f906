// SPDX-License-Identifier: Apache-2.0
// External requests to stop: see stop_signals.hpp.
#include "runtime/posix/stop_signals.hpp"

#include <unistd.h>

#include <csignal>
#include <exception>

namespace halomesh {
namespace {

struct Signal {
  int number;
  const char* name;
};
constexpr std::array<Signal, 5> kAll = {{{SIGTERM, "SIGTERM"},
                                         {SIGINT, "SIGINT"},
                                         {SIGHUP, "SIGHUP"},
                                         {SIGXCPU, "SIGXCPU"},
                                         {SIGUSR2, "SIGUSR2"}}};

// Signal handlers can only access static storage.
volatile std::sig_atomic_t stop_requested = 0;  // the signal's number
volatile std::sig_atomic_t report_requested = 0;
std::atomic<std::atomic<int>*> stop_answered = nullptr;
std::array<std::string, kAll.size()> answers;  // unchanged while handlers are installed
int existing = 0;
bool ignored = false;              // for the rest of the process's life
std::function<bool(bool)> shared;  // set by StopSignals::share()

void request_stop(int number) {
  stop_requested = number;
  std::atomic<int>* const answered = stop_answered.load();
  if (answered == nullptr || answered->exchange(1) != 0) return;
  for (std::size_t i = 0; i < kAll.size(); ++i)
    if (kAll[i].number == number) {
      // write() is safe in a signal handler; its result does not matter here.
      [[maybe_unused]] const auto written =
          ::write(STDERR_FILENO, answers[i].data(), answers[i].size());
    }
}

void request_report(int /*number*/) { report_requested = 1; }

}  // namespace

StopSignals::StopSignals(std::atomic<int>* answered, const std::string& answer) {
  static_assert(kSignals == kAll.size());
  if (existing++ == 0) stop_requested = 0;
  report_requested = 0;
  stop_answered = nullptr;  // while the answers change
  for (std::size_t i = 0; i < kAll.size(); ++i)
    answers[i] = std::string("halomesh: ") + kAll[i].name + " received: " + answer + '\n';
  stop_answered = answered;
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    const int number = kAll[i].number;
    ::sigaction(number, nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN && (number == SIGINT || number == SIGHUP)) continue;
    struct sigaction action {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    ::sigaction(number, &action, nullptr);
  }
  struct sigaction report {};
  report.sa_handler = request_report;
  report.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &report, &before_report_);
}

StopSignals::~StopSignals() {
  if (shares_) shared = nullptr;
  // This rank fails and will print why; the launcher's signal to the others then adds nothing.
  if (std::atomic<int>* const answered = stop_answered.load();
      answered != nullptr && std::uncaught_exceptions() > 0)
    answered->store(1);
  if (!ignored) {
    for (std::size_t i = 0; i < kAll.size(); ++i) ::sigaction(kAll[i].number, &before_[i], nullptr);
    ::sigaction(SIGUSR1, &before_report_, nullptr);
  }
  stop_answered = nullptr;
  --existing;
}

void StopSignals::ignore_from_now_on() {
  ignored = true;
  for (const Signal& signal : kAll) std::signal(signal.number, SIG_IGN);
  std::signal(SIGUSR1, SIG_IGN);
}

bool StopSignals::requested() const {
  if (shared && shared(stop_requested != 0) && stop_requested == 0) stop_requested = SIGTERM;
  return stop_requested != 0;
}

void StopSignals::share(std::function<bool(bool)> pass_on) {
  shared = std::move(pass_on);
  shares_ = true;
}

bool StopSignals::take_report_request() {
  const bool requested = report_requested != 0;
  // A signal between the next two lines is answered by the report that this call requests.
  report_requested = 0;
  return requested;
}

std::string StopSignals::name() const {
  for (const Signal& signal : kAll)
    if (signal.number == stop_requested) return signal.name;
  return "a signal";
}

}  // namespace halomesh
