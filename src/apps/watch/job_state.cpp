// SPDX-License-Identifier: Apache-2.0
// What the scheduler says of a job: see job_state.hpp.
#include "src/apps/watch/job_state.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>

#include "runtime/posix/descriptor.hpp"

namespace halomesh {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerLimit{5};
constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostDigits = 18;

/// In the child: becomes the command, or ends with 127 as a shell would.
[[noreturn]] void become(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));  // exec does not change them
  arguments.push_back(nullptr);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

/// Milliseconds from now to `end`, at least 0.
int until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

/// All that is written to `input` before `end`; empty if more would follow.
std::optional<std::string> read_until(int input, Clock::time_point end) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() < kMostBytes) {
    pollfd ready{.fd = input, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, until(end)) <= 0) return std::nullopt;
    const ssize_t n = ::read(input, buffer.data(), buffer.size());
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return std::nullopt;
}

/// Waits for the child until `end`, then kills it. True when it has succeeded.
bool succeeds(pid_t child, Clock::time_point end) {
  int status = 0;
  pid_t ended = ::waitpid(child, &status, WNOHANG);
  while (ended == 0 && until(end) > 0) {
    ::poll(nullptr, 0, 5);
    ended = ::waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return false;
  }
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// pjstat's line of the job: number, name, mode, state, user, start, elapsed limit, nodes.
std::string pjm_line(const std::string& text, const std::string& job) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, name, mode, state;
    if (words >> number >> name >> mode >> state && number == job) return state;
  }
  return {};
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) become(command, output.get());
  output = Descriptor();  // so that the end of the child ends the text
  const std::optional<std::string> text = read_until(input.get(), end);
  const bool good = succeeds(child, text ? end : Clock::now());
  return good ? text : std::nullopt;
}

std::string job_state(const std::string& scheduler, const std::string& job) {
  const bool number =
      !job.empty() && job.size() <= kMostDigits &&
      std::all_of(job.begin(), job.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number) return {};
  const bool slurm = scheduler == "slurm";
  if (!slurm && scheduler != "pjm") return {};
  // Of a job that has ended, squeue prints nothing for some minutes and then fails.
  const std::vector<std::string> command =
      slurm ? std::vector<std::string>{"squeue", "-h", "-j", job, "-o", "%T %M %L %R"}
            : std::vector<std::string>{"pjstat", job};
  const std::optional<std::string> text = output_of(command, kAnswerLimit);
  if (!text) return {};
  const std::string state = slurm ? one_line(*text) : pjm_line(*text, job);
  return state.empty() ? "not in the queue" : state;
}

}  // namespace halomesh
