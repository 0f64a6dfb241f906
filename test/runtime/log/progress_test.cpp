// SPDX-License-Identifier: Apache-2.0
// Progress lines: their text, and what reaches a terminal or a file.
#include "runtime/log/progress.hpp"

#include <doctest/doctest.h>

#include <array>

namespace halomesh {
namespace {

/// A temporary file that is read back.
class Captured {
 public:
  Captured() : file_(std::tmpfile()) { REQUIRE(file_ != nullptr); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::rewind(file_);
    std::array<char, 1024> bytes{};
    return {bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file_)};
  }

 private:
  std::FILE* file_;
};

TEST_CASE("a report shows progress, speed and time left") {
  const Progress progress("synth", "samples", 64, false);
  CHECK(progress.line(16, "", 4) == "synth  16/64 samples  25%  4.00 samples/s  12 s left");
  CHECK(progress.line(64, "loss 0.1", 4) == "synth  64/64 samples  100%  16.0 samples/s  loss 0.1");
  // Before anything is done there is no rate to speak of.
  CHECK(progress.line(0, "", 4) == "synth  0/64 samples  0%");
  CHECK(progress.line(0, "", 0) == "synth  0/64 samples  0%");
}

TEST_CASE("rates count from where the task was resumed, and totals may be unknown") {
  CHECK(Progress("train", "steps", 100, false, 50).line(60, "", 10) ==
        "train  60/100 steps  60%  1.00 steps/s  40 s left");
  CHECK(Progress("train", "steps", 0, false).line(30, "", 10) == "train  30 steps  3.00 steps/s");
}

TEST_CASE("durations are rounded to what matters") {
  CHECK(Progress::duration(0.2) == "0 s");
  CHECK(Progress::duration(59.4) == "59 s");
  CHECK(Progress::duration(59.6) == "1 min 00 s");
  CHECK(Progress::duration(3599) == "59 min 59 s");
  CHECK(Progress::duration(7500) == "2 h 05 min");
}

TEST_CASE("a file gets plain lines, one per interval") {
  Captured out;
  Progress progress("p", "steps", 4, true, 0, out.file(), false);
  progress.update(1);  // too early: the interval is 10 s
  progress.message("epoch 1 done");
  progress.set_interval(0);
  progress.update(2, "x");
  progress.finish();
  const std::string text = out.text();
  CHECK(text.find("epoch 1 done\np  2/4 steps  50%") == 0);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.back() == '\n');
}

TEST_CASE("lines in a file become rare when a task takes long") {
  CHECK(Progress::interval(0, false) == 10);
  CHECK(Progress::interval(600, false) == 10);
  CHECK(Progress::interval(601, false) == 60);
  CHECK(Progress::interval(86400, false) == 60);
  CHECK(Progress::interval(0, true) == 0.2);
  CHECK(Progress::interval(86400, true) == 0.2);
}

TEST_CASE("on a terminal the line is redrawn, and removed in the end") {
  Captured out;
  Progress progress("p", "steps", 4, true, 0, out.file(), true);
  progress.set_interval(0);
  progress.update(1);
  progress.update(2, std::string(200, 'n'));
  progress.finish();
  const std::string text = out.text();
  const std::size_t second = text.find("\r\033[K");
  REQUIRE(second != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.substr(text.size() - 4) == "\r\033[K");
  // Cut to what fits a narrow terminal.
  CHECK(text.size() - second - 8 == 79);
}

TEST_CASE("a rank that does not speak writes nothing") {
  Captured out;
  Progress quiet("p", "steps", 4, false, 0, out.file(), false);
  quiet.set_interval(0);
  quiet.update(1);
  quiet.message("m");
  quiet.finish();
  Progress none;
  none.update(1);
  none.finish();
  CHECK(out.text().empty());
}

}  // namespace
}  // namespace halomesh
