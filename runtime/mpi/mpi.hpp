// SPDX-License-Identifier: Apache-2.0
// The owner of MPI: the session, communicators and requests, each call checked in every build type.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halomesh {

/// Throws Error naming the failing call and its place unless `code` is MPI_SUCCESS. (Uses
/// built-ins, not std::source_location, which clang 14 lacks with libstdc++.)
void mpi_check(int code, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* function = __builtin_FUNCTION());

/// A communicator that this object owns and frees; errors are returned, never fatal. Move-only: new
/// communicators come only from the collective dup() and split().
class Comm {
 public:
  Comm() = default;
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&& other) noexcept;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  /// Collective over this communicator.
  Comm dup() const;
  /// Collective over this communicator. Ranks that pass color < 0 get a Comm that is_null().
  Comm split(int color, int key) const;
  /// The ranks that share a node's memory with this one. Collective over this communicator.
  Comm split_by_node() const;
  /// The communicator of split_by_node(), made by the first call, which is collective, and kept;
  /// communicators made by dup() share it.
  const Comm& node() const;

  MPI_Comm handle() const { return handle_; }
  bool is_null() const { return handle_ == MPI_COMM_NULL; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The collectives below are called by every rank of this communicator.
  void barrier() const;
  /// Call it before a blocking collective of MPI: waits for all ranks if waits can be interrupted
  /// (see InterruptibleWaits), and otherwise does nothing.
  void await_all() const;
  /// Waits for the message likewise, before MPI_Recv. Local.
  void await_message(int source, int tag) const;
  void broadcast(std::span<std::byte> bytes, int root) const;
  /// Every rank gets rank `root`'s text.
  std::string broadcast(const std::string& text, int root) const;
  double sum(double value) const;
  std::int64_t sum(std::int64_t value) const;
  double max(double value) const;
  std::int64_t max(std::int64_t value) const;
  /// Element-wise sums over all ranks, in place.
  void sum(std::span<double> values) const;
  void sum(std::span<std::int64_t> values) const;
  /// Element-wise maxima over all ranks, in place.
  void max(std::span<double> values) const;
  void max(std::span<std::int64_t> values) const;
  /// The texts of all ranks, in rank order, on rank 0; empty elsewhere.
  std::vector<std::string> gather(const std::string& text) const;
  /// The texts of all ranks on every rank. Takes memory for all texts on every rank, so it is for
  /// few ranks or for data that all need.
  std::vector<std::string> all_gather(const std::string& text) const;
  /// The first text in rank order that is not empty, on every rank; "" if all are empty.
  std::string first_text(const std::string& text) const;

 private:
  friend class MpiSession;
  explicit Comm(MPI_Comm handle, bool owned);
  MPI_Comm handle_ = MPI_COMM_NULL;
  bool owned_ = false;
  int rank_ = 0, size_ = 1;
  mutable std::shared_ptr<const Comm> node_;
};

/// Initialises MPI for calls only by the constructing thread (MPI_THREAD_FUNNELED) and finalises it
/// in the destructor. One per process.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  /// A view of MPI_COMM_WORLD with returned errors.
  const Comm& world() const { return world_; }
  /// Ends every rank of the job with this exit code.
  [[noreturn]] void abort(int exit_code) const;
  /// The name that the library gives itself, such as "Open MPI v4.1.4, ...", on one line.
  static std::string library_version();

 private:
  Comm world_;
};

/// A set of requests: the destructor waits for those in flight and frees persistent ones, unless an
/// exception unwinds (see in_flight.hpp). The buffers of the requests must outlive this object.
class Requests {
 public:
  Requests() = default;
  Requests(Requests&& other) noexcept
      : requests_(std::move(other.requests_)),
        cancelled_(std::exchange(other.cancelled_, MPI_REQUEST_NULL)) {
    other.requests_.clear();
  }
  Requests& operator=(Requests&&) = delete;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests();

  /// A new slot to be filled by an MPI_I... or MPI_..._init call; valid until the next add().
  MPI_Request* add();
  std::size_t size() const { return requests_.size(); }
  MPI_Request& operator[](std::size_t index) { return requests_[index]; }
  /// Starts all persistent requests.
  void start_all();
  /// True if all requests are complete. Lets MPI make progress.
  bool test_all();
  void wait_all();
  /// Appends to `indices` the requests that have completed since the last call; with `wait`, waits
  /// for at least one. False if no request was left.
  bool take_completed(bool wait, std::vector<int>& indices);
  /// Waits for one request by its index.
  void wait(std::size_t index);
  /// True if this request, which must be active, is complete. Lets MPI make progress.
  bool test(std::size_t index);
  /// Waits for all requests and removes them, but keeps their memory.
  void clear();

 private:
  int simulated_test(std::size_t first, std::size_t count);

  std::vector<MPI_Request> requests_;
  MPI_Request cancelled_ = MPI_REQUEST_NULL;  // for simulated_test()
};

}  // namespace halomesh
