// SPDX-License-Identifier: Apache-2.0
// Shared outcomes, and the alarm of a rank that fails: see collective_errors.hpp.
#include "runtime/mpi/collective_errors.hpp"

#include <exception>

#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/interruptible_waits.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

/// Runs `work` and packs its text, or the Error that it threw, to be sent to other ranks.
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return "+" + work();
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    return fmt::format("-{}{}{}", error.what(), '\0', error.hint());
  }
}

bool failed(const std::string& outcome) { return outcome.front() != '+'; }

/// The inverse of outcome_of(): returns the text, or throws the Error.
std::string unpack_outcome(const std::string& outcome) {
  if (!failed(outcome)) return outcome.substr(1);
  const std::size_t hint = outcome.find('\0');
  throw Error(outcome.substr(1, hint - 1), outcome.substr(hint + 1));
}

/// All ranks throw the Error of the first rank that failed.
void throw_first(const Comm& comm, const std::string& outcome) {
  const std::string first = comm.first_text(failed(outcome) ? outcome : std::string());
  if (!first.empty()) unpack_outcome(first);
}

/// Sends an empty message from a failed rank to all others.
class Alarm {
 public:
  explicit Alarm(const Comm& comm) : comm_(comm.dup()) { listen(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  /// Call finish() first, unless an exception unwinds.
  ~Alarm() {
    if (unwinding() || heard_ == MPI_REQUEST_NULL) return;
    MPI_Cancel(&heard_);
    MPI_Wait(&heard_, MPI_STATUS_IGNORE);
  }

  void raise() {
    raised_ = true;
    for (int r = 0; r < comm_.size(); ++r)
      if (r != comm_.rank())
        mpi_check(MPI_Isend(nullptr, 0, MPI_BYTE, r, kTag, comm_.handle(), told_.add()));
  }
  bool heard() {
    int arrived = 0;
    if (heard_ != MPI_REQUEST_NULL) mpi_check(MPI_Test(&heard_, &arrived, MPI_STATUS_IGNORE));
    return heard_ == MPI_REQUEST_NULL;
  }
  /// Collective: receives the remaining messages.
  void finish() {
    const std::int64_t raised = comm_.sum(std::int64_t{raised_ ? 1 : 0});
    for (std::int64_t due = raised - (raised_ ? 1 : 0); due > 0; --due) {
      mpi_check(MPI_Wait(&heard_, MPI_STATUS_IGNORE));
      if (due > 1) listen();
    }
    told_.wait_all();
  }

 private:
  static constexpr int kTag = 0;
  void listen() {
    mpi_check(MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_.handle(), &heard_));
  }

  Comm comm_;
  Requests told_;
  MPI_Request heard_ = MPI_REQUEST_NULL;
  bool raised_ = false;
};

}  // namespace

std::string on_first_rank(const Comm& comm, const std::function<std::string()>& work) {
  return unpack_outcome(comm.broadcast(comm.rank() == 0 ? outcome_of(work) : std::string(), 0));
}

std::vector<std::string> on_every_rank(const Comm& comm, const std::function<std::string()>& work) {
  const std::string outcome = outcome_of(work);
  throw_first(comm, outcome);
  return comm.all_gather(unpack_outcome(outcome));
}

void on_all_ranks(const Comm& comm, const std::function<void()>& work) {
  throw_first(comm, outcome_of([&] {
                work();
                return std::string();
              }));
}

void run_with_collective_errors(
    const Comm& comm, const std::function<void(const std::function<bool()>& others_failed)>& work) {
  Alarm alarm(comm);
  const std::string outcome = outcome_of([&] {
    work([&alarm] { return alarm.heard(); });
    return std::string();
  });
  if (failed(outcome)) alarm.raise();
  alarm.finish();
  throw_first(comm, outcome);
}

std::optional<ContainedFailure> contained_failure(const Comm& comm,
                                                  const std::function<void()>& work) {
  Alarm alarm(comm);
  bool is_usage = false;
  const std::string outcome = outcome_of([&] {
    try {
      const InterruptibleWaits waits([&alarm] { return alarm.heard(); });
      work();
    } catch (const WaitInterrupted&) {  // the failed rank reports why
    } catch (const UsageError&) {
      is_usage = true;
      throw;
    }
    return std::string();
  });
  if (failed(outcome)) alarm.raise();
  alarm.finish();
  const std::string first = comm.first_text(failed(outcome) ? outcome : std::string());
  if (first.empty()) return {};
  is_usage = comm.max(std::int64_t{is_usage ? 1 : 0}) > 0;
  try {
    unpack_outcome(first);
  } catch (const Error& error) {
    return ContainedFailure{error, is_usage};
  }
  return {};
}

}  // namespace halomesh
