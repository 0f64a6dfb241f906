// SPDX-License-Identifier: Apache-2.0
// The command `watch`: how far a run is, from its files alone. Needs no MPI.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "runtime/posix/stop_signals.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/watch/job_state.hpp"
#include "src/apps/watch/status_text.hpp"

namespace halomesh {
namespace {

constexpr int kExitRunning = 3, kExitSilent = 4;
constexpr double kLineSeconds = 60, kJobSeconds = 30;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// When the file was changed, in Unix seconds; 0 if there is none.
double changed_at(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<double>(status.st_mtim.tv_sec) : 0;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr || *value == '\0') continue;
    std::string locale = value;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

ScreenForm screen_form() {
  ScreenForm form;
  form.utf8 = locale_is_utf8();
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) form.columns = size.ws_col;
  return form;
}

/// Follows one run: reads what is new, and shows it.
class Watch {
 public:
  Watch(const std::string& run, double silent_limit_s, bool as_json)
      : files_(run), silent_limit_s_(silent_limit_s), as_json_(as_json) {
    note_change();
  }

  const RunStatus& refresh() {
    if (files_.update()) note_change();
    status_ = status_of(files_, unix_now(), last_sign_, silent_limit_s_);
    if (!status_.job.empty() && status_.state != RunState::kDone &&
        unix_now() - job_asked_ >= kJobSeconds) {
      job_state_ = job_state(status_.scheduler, status_.job);
      job_asked_ = unix_now();
    }
    return status_;
  }

  void print_screen() const {
    for (const std::string& line : status_screen(status_, job_state_, screen_form()))
      std::cout << line << '\n';
  }
  void print_json(int indent) const {
    nlohmann::ordered_json json = to_json(status_);
    if (!job_state_.empty()) json["job"]["state"] = job_state_;
    using Handler = nlohmann::ordered_json::error_handler_t;
    std::cout << json.dump(indent, ' ', false, Handler::replace) << std::endl;
  }
  /// The screen again, in place.
  void redraw() const {
    std::cout << "\033[H\033[J";
    print_screen();
    std::cout << std::flush;
  }
  /// A line, if something has changed and the last line is a minute old, or the state is another.
  void report() {
    const bool same = shown_change_ == last_sign_;
    if (shown_state_ == status_.state && (same || unix_now() - shown_ < kLineSeconds)) return;
    if (as_json_)
      print_json(-1);
    else
      std::cout << status_line(status_, job_state_) << std::endl;
    shown_ = unix_now();
    shown_state_ = status_.state;
    shown_change_ = last_sign_;
  }
  void warn() const {
    for (const std::string& problem : files_.problems())
      std::cerr << "WARNING: " << problem << '\n';
  }

 private:
  // The time of the last line, or, where lines or times are missing, of the files. Times of a node
  // whose clock is behind ours do not make a run that has just written silent.
  void note_change() {
    last_sign_ = std::max(files_.last_written(), changed_at(files_.directory() / "run.json"));
    last_sign_ = std::max(last_sign_, changed_at(files_.directory() / "metrics.jsonl"));
  }

  RunFiles files_;
  RunStatus status_;
  double silent_limit_s_;
  bool as_json_;
  double last_sign_ = 0, shown_change_ = 0;
  double shown_ = 0, job_asked_ = 0;
  std::optional<RunState> shown_state_;
  std::string job_state_;
};

int exit_code(RunState state) {
  if (state == RunState::kDone) return kExitDone;
  return state == RunState::kRunning ? kExitRunning : kExitSilent;
}

/// Until the run is done or silent, or a signal asks to stop.
int follow(Watch& watch, double interval_s, bool as_json) {
  const StopSignals signals;
  const bool redraws = !as_json && ::isatty(STDOUT_FILENO) == 1;
  while (true) {
    const RunState state = watch.refresh().state;
    if (redraws)
      watch.redraw();
    else
      watch.report();
    if (state != RunState::kRunning || !std::cout) return exit_code(state);
    // A signal ends the wait early.
    ::poll(nullptr, 0, static_cast<int>(interval_s * 1e3));
    if (signals.requested()) return kExitRunning;
  }
}

Options watch_options() {
  Options options("watch [options] RUN",
                  "Shows how far a run (its --out directory) is: step, loss, MAE, speed, where the "
                  "time goes, the\ntime left and what the scheduler says. Reads only its files, "
                  "from any node that sees them.",
                  "halomesh watch run");
  options.group("Watching")
      .add_switch("once", "show the run as it is now, and end")
      .add_switch("json", "print JSON: with --once one object, else one per line")
      .add<double>("interval", "S", 2.0, "seconds between two looks at the files")
      .at_least(0.1)
      .at_most(86400)
      .add<double>("silent-limit", "S", 0.0,
                   "a run without a new line for S seconds is silent; 0: 600, or ten times the "
                   "usual interval between lines if that is longer")
      .at_least(0);
  options.closing(
      "On a terminal the screen is redrawn; elsewhere there is one line per change, at most one a "
      "minute.\nExit code: 0 the run is done, 3 it is running (with --once, or watch was "
      "interrupted), 4 it is silent,\n1 it cannot be read, 2 usage.");
  options.accept_arguments();
  return options;
}

}  // namespace

int run_watch(int argc, char** argv) {
  Options options = watch_options();
  options.parse(argc, argv);
  if (options.help_wanted()) {
    std::cout << options.help();
    return kExitDone;
  }
  if (options.arguments().size() != 1)
    throw UsageError(fmt::format("watch got {} runs instead of 1", options.arguments().size()),
                     "give the --out directory of one run: halomesh watch run");
  const bool as_json = options.get<bool>("json");
  Watch watch(options.arguments()[0], options.get<double>("silent-limit"), as_json);
  watch.warn();
  if (!options.get<bool>("once")) return follow(watch, options.get<double>("interval"), as_json);
  const RunState state = watch.refresh().state;
  if (as_json)
    watch.print_json(2);
  else
    watch.print_screen();
  return exit_code(state);
}

}  // namespace halomesh
