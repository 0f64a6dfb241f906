// SPDX-License-Identifier: Apache-2.0
// The progress of a long task: a line that is redrawn on a terminal; elsewhere plain lines, at most
// one per minute once the task takes long. Must not depend on MPI: the caller decides which rank
// reports.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "printable.hpp"

namespace halomesh {

/// Shows "label 12/64 unit 19% 3.1 unit/s 17 s left note", by default on standard error, so that
/// results on standard output stay clean. Never throws; a closed terminal is ignored.
class Progress {
 public:
  /// A Progress that reports nothing.
  Progress() = default;
  /// `done` of `total` (0: unknown) units, such as steps, are complete already; rates count from
  /// here. With `speaks` false (on all ranks but one) nothing is reported.
  Progress(std::string label, std::string unit, std::int64_t total, bool speaks = true,
           std::int64_t done = 0, std::FILE* out = stderr,
           bool terminal = error_output_is_terminal())
      : label_(std::move(label)),
        unit_(std::move(unit)),
        total_(total),
        first_(done),
        out_(speaks ? out : nullptr),
        terminal_(terminal) {}

  /// Sets the seconds between two reports, instead of interval().
  void set_interval(double seconds) { interval_s_ = seconds; }
  /// Seconds until the next report of a task that has taken `seconds`: 0.2 on a terminal; elsewhere
  /// 10 within the first ten minutes, then 60, because such lines fill log files.
  static double interval(double seconds, bool terminal) {
    return terminal ? 0.2 : seconds <= 600 ? 10 : 60;
  }

  /// Reports that `done` units are complete, if the last report is old enough.
  void update(std::int64_t done, const std::string& note = {}) {
    if (out_ == nullptr) return;
    const double now = seconds_since_start();
    if (now - last_report_s_ < interval_s_.value_or(interval(now, terminal_))) return;
    last_report_s_ = now;
    draw(line(done, note, now));
  }
  /// Prints a permanent line, regardless of the interval.
  void message(const std::string& text) {
    if (out_ == nullptr) return;
    clear();
    std::fprintf(out_, "%s\n", printable(text).c_str());
    std::fflush(out_);
  }
  /// Removes the line from a terminal; the caller's summary follows.
  void finish() {
    if (out_ == nullptr) return;
    clear();
    std::fflush(out_);
  }

  /// The text of a report after `seconds`.
  std::string line(std::int64_t done, const std::string& note, double seconds) const {
    std::string text = label_ + "  " + std::to_string(done);
    if (total_ > 0) text += "/" + std::to_string(total_);
    text += " " + unit_;
    if (total_ > 0) text += "  " + std::to_string(done * 100 / total_) + "%";
    const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
    if (rate > 0) {
      text += "  " + number(rate) + " " + unit_ + "/s";
      if (total_ > done)
        text += "  " + duration(static_cast<double>(total_ - done) / rate) + " left";
    }
    return note.empty() ? text : text + "  " + note;
  }
  /// True if standard error is a character device: a terminal, or a null device, where redrawing
  /// does no harm.
  static bool error_output_is_terminal() {
    std::error_code ignored;
    return std::filesystem::is_character_file("/dev/stderr", ignored);
  }
  /// Formats "7 s", "3 min 20 s" or "2 h 05 min".
  static std::string duration(double seconds) {
    const auto s = static_cast<std::int64_t>(std::llround(seconds));
    if (s < 60) return fmt::format("{} s", s);
    if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
    return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
  }

 private:
  static std::string number(double value) {
    return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  }
  double seconds_since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  void draw(const std::string& text) {
    if (terminal_) {
      clear();
      // A line wider than the terminal would wrap and could not be redrawn.
      std::fprintf(out_, "%.*s", 79, text.c_str());
      drawn_ = true;
    } else {
      std::fprintf(out_, "%s\n", text.c_str());
    }
    std::fflush(out_);
  }
  void clear() {
    if (drawn_) std::fputs("\r\033[K", out_);
    drawn_ = false;
  }

  std::string label_, unit_;
  std::int64_t total_ = 0, first_ = 0;
  std::FILE* out_ = nullptr;
  bool terminal_ = false, drawn_ = false;
  std::optional<double> interval_s_;
  double last_report_s_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace halomesh
