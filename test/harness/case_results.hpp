// SPDX-License-Identifier: Apache-2.0
// The outcome of each case of a test program, and the line from which run_tests.sh reads their
// numbers. Only for the mains, as it registers a doctest listener. Must not depend on MPI.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "test/harness/skip.hpp"
#include "test/harness/watchdog.hpp"

namespace halomesh::test {

/// The outcome of a case. Over several ranks, the largest counts.
enum CaseOutcome : int { kPassed, kSkipped, kFailed };

/// One CaseOutcome for each case that ran, in order.
inline std::vector<int>& case_outcomes() {
  static std::vector<int> outcomes;
  return outcomes;
}

inline long count_outcomes(CaseOutcome outcome) {
  return std::count(case_outcomes().begin(), case_outcomes().end(), int{outcome});
}

/// Called after each failed case, while ranks that still hang in it are silent.
inline std::function<void()>& on_failed_case() {
  static std::function<void()> action = [] {};
  return action;
}

/// Records the outcome of every case and gives each a limit of HALOMESH_CASE_SECONDS (600).
class CaseRecorder : public doctest::IReporter {
 public:
  explicit CaseRecorder(const doctest::ContextOptions& /*options*/) {
    if (const char* seconds = std::getenv("HALOMESH_CASE_SECONDS"))
      limit_seconds_ = std::strtod(seconds, nullptr);
  }
  void test_case_start(const doctest::TestCaseData& test_case) override {
    case_is_skipped() = false;
    watchdog_ = std::make_unique<Watchdog>("test case \"" + std::string(test_case.m_name) + '"',
                                           limit_seconds_);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& result) override {
    watchdog_.reset();
    case_outcomes().push_back(!result.testCaseSuccess ? kFailed
                              : case_is_skipped()     ? kSkipped
                                                      : kPassed);
    if (!result.testCaseSuccess) on_failed_case()();
  }

  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*totals*/) override { watchdog_.reset(); }
  void test_case_reenter(const doctest::TestCaseData& /*test_case*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*error*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*message*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test_case*/) override {}

 private:
  double limit_seconds_ = 600;
  std::unique_ptr<Watchdog> watchdog_;
};
DOCTEST_REGISTER_LISTENER("case_recorder", 1, CaseRecorder);

/// The number of cases that the command line's filters select, with those decorated skip() or
/// without.
inline long count_selected(int argc, char** argv, bool with_skipped) {
  std::vector<const char*> arguments(argv, argv + argc);
  arguments.push_back("--count");
  arguments.push_back("--no-colors");
  if (with_skipped) arguments.push_back("--no-skip");
  std::ostringstream text;
  doctest::Context context(static_cast<int>(arguments.size()), arguments.data());
  context.setCout(&text);
  context.run();
  const std::string out = text.str();
  const std::size_t start = out.rfind(": ");
  return start == std::string::npos ? 0 : std::strtol(out.c_str() + start + 2, nullptr, 10);
}

/// The number of cases that the filters select and a skip() decoration leaves out. doctest's own
/// figure also counts cases that the filters exclude, so a case run elsewhere would be counted
/// twice.
inline long count_skipped(int argc, char** argv) {
  return count_selected(argc, argv, true) - count_selected(argc, argv, false);
}

/// Prints the line that run_tests.sh reads; it starts on a new line whatever was printed before.
inline void print_tally(long passed, long failed, long skipped) {
  std::printf("\n[tally] %ld passed, %ld failed, %ld skipped\n", passed, failed, skipped);
  std::fflush(stdout);
}

}  // namespace halomesh::test
