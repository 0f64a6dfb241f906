// SPDX-License-Identifier: Apache-2.0
// The owner of MPI: see mpi.hpp.
#include "runtime/mpi/mpi.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/interruptible_waits.hpp"
#include "simulation.hpp"

namespace halomesh {

void mpi_check(int code, const char* file, int line, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  int kind = 0;
  MPI_Error_class(code, &kind);
  throw Error(fmt::format("MPI failed in {} ({}:{}): {}", function, file, line,
                          std::string(text, static_cast<std::size_t>(length))),
              kind == MPI_ERR_NO_MEM
                  ? "use fewer ranks per node, or raise the limits of memory (ulimit -v and -d)"
                  : "another rank may have ended first: look for its message above");
}

namespace {

// Tries until done(). MPI's own waiting calls may never give up their core, which the awaited rank
// may need: after some ten microseconds, other threads run between two tries. Simulated ranks wait
// in the simulator.
template <class Done>
void try_until(const Done& done) {
  constexpr int kTriesInARow = 64;
  for (int tries = 0; !done(); ++tries)
    if (tries >= kTriesInARow) {
      InterruptibleWaits::check();
      std::this_thread::yield();
    }
}

}  // namespace

Comm::Comm(MPI_Comm handle, bool owned) : handle_(handle), owned_(owned) {
  if (handle_ == MPI_COMM_NULL) return;
  mpi_check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN));
  mpi_check(MPI_Comm_rank(handle_, &rank_));
  mpi_check(MPI_Comm_size(handle_, &size_));
}

Comm::Comm(Comm&& other) noexcept
    : handle_(std::exchange(other.handle_, MPI_COMM_NULL)),
      owned_(std::exchange(other.owned_, false)),
      rank_(other.rank_),
      size_(other.size_),
      node_(std::move(other.node_)) {}

Comm& Comm::operator=(Comm&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(owned_, other.owned_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(node_, other.node_);
  return *this;
}

Comm::~Comm() {
  if (!owned_ || handle_ == MPI_COMM_NULL || unwinding()) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&handle_);
}

Comm Comm::dup() const {
  // SMPI gives each rank of a duplicate a table of all ranks. Simulated ranks duplicate only
  // communicators on which their tags differ from all others.
  if constexpr (simulation::kOn) {
    Comm same(handle_, false);
    same.node_ = node_;
    return same;
  }
  MPI_Comm result = MPI_COMM_NULL;
  await_all();
  mpi_check(MPI_Comm_dup(handle_, &result));
  Comm copy(result, true);
  copy.node_ = node_;
  return copy;
}

Comm Comm::split(int color, int key) const {
  MPI_Comm result = MPI_COMM_NULL;
  await_all();
  mpi_check(MPI_Comm_split(handle_, color < 0 ? MPI_UNDEFINED : color, key, &result));
  return Comm(result, true);
}

Comm Comm::split_by_node() const {
  MPI_Comm result = MPI_COMM_NULL;
  await_all();
  mpi_check(MPI_Comm_split_type(handle_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &result));
  return Comm(result, true);
}

const Comm& Comm::node() const {
  if (!node_) node_ = std::make_shared<const Comm>(split_by_node());
  return *node_;
}

void Comm::await_all() const {
  if (!InterruptibleWaits::exist() || size_ == 1) return;
  Requests arrived;
  mpi_check(MPI_Ibarrier(handle_, arrived.add()));
  arrived.wait_all();
}

void Comm::await_message(int source, int tag) const {
  if (!InterruptibleWaits::exist()) return;
  try_until([&] {
    int arrived = 0;
    mpi_check(MPI_Iprobe(source, tag, handle_, &arrived, MPI_STATUS_IGNORE));
    return arrived != 0;
  });
}

void Comm::barrier() const {
  await_all();
  mpi_check(MPI_Barrier(handle_));
}

void Comm::broadcast(std::span<std::byte> bytes, int root) const {
  await_all();
  mpi_check(MPI_Bcast(bytes.data(), narrow<int>(bytes.size()), MPI_BYTE, root, handle_));
}

std::string Comm::broadcast(const std::string& text, int root) const {
  std::uint64_t length = text.size();
  await_all();
  mpi_check(MPI_Bcast(&length, 1, MPI_UINT64_T, root, handle_));
  std::string result = rank_ == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

double Comm::sum(double value) const {
  sum(std::span(&value, 1));
  return value;
}

std::int64_t Comm::sum(std::int64_t value) const {
  sum(std::span(&value, 1));
  return value;
}

double Comm::max(double value) const {
  max(std::span(&value, 1));
  return value;
}

std::int64_t Comm::max(std::int64_t value) const {
  max(std::span(&value, 1));
  return value;
}

void Comm::sum(std::span<double> values) const {
  if (size_ == 1) return;
  await_all();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_DOUBLE,
                          MPI_SUM, handle_));
  // Models the sum of the loss as a tree and back; SMPI charges neither end of its messages.
  if constexpr (simulation::kOn)
    for (int ranks = 1; ranks < size_; ranks *= 2)
      for (int end = 0; end < 4; ++end)
        simulation::message_end(static_cast<std::int64_t>(values.size_bytes()));
}

void Comm::sum(std::span<std::int64_t> values) const {
  if (size_ == 1) return;
  await_all();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_INT64_T,
                          MPI_SUM, handle_));
}

void Comm::max(std::span<double> values) const {
  if (size_ == 1) return;
  await_all();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_DOUBLE,
                          MPI_MAX, handle_));
}

void Comm::max(std::span<std::int64_t> values) const {
  if (size_ == 1) return;
  await_all();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size()), MPI_INT64_T,
                          MPI_MAX, handle_));
}

namespace {

/// Several texts, one after the other.
struct JoinedTexts {
  std::vector<int> lengths, offsets;
  std::string all;

  explicit JoinedTexts(std::size_t count) : lengths(count), offsets(count) {}
  /// Makes space for texts of these lengths.
  void make_room() {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      offsets[i] = narrow<int>(total);
      total += lengths[i];
    }
    all.resize(static_cast<std::size_t>(total));
  }
  std::vector<std::string> apart() const {
    std::vector<std::string> texts;
    texts.reserve(lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i)
      texts.push_back(
          all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    return texts;
  }
};

/// Open MPI 4 starts a daemon for a process without a launcher, only so that it could start others.
/// The daemon outlives a process that is killed, and takes memory without end where a limit on file
/// sizes stops it. Without it, such processes would share directories, which the first to end
/// removes; a process alone needs none.
void stay_alone_without_launcher() {
  for (const char* of_launcher :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT", "PJM_JOBID"})
    if (std::getenv(of_launcher) != nullptr) return;      // NOLINT(concurrency-mt-unsafe)
  ::setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);    // NOLINT(concurrency-mt-unsafe)
  ::setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

std::vector<std::string> Comm::gather(const std::string& text) const {
  const int mine = narrow<int>(text.size());
  JoinedTexts texts(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
  await_all();
  mpi_check(MPI_Gather(&mine, 1, MPI_INT, texts.lengths.data(), 1, MPI_INT, 0, handle_));
  texts.make_room();
  mpi_check(MPI_Gatherv(text.data(), mine, MPI_CHAR, texts.all.data(), texts.lengths.data(),
                        texts.offsets.data(), MPI_CHAR, 0, handle_));
  return texts.apart();
}

std::vector<std::string> Comm::all_gather(const std::string& text) const {
  const int mine = narrow<int>(text.size());
  JoinedTexts texts(static_cast<std::size_t>(size_));
  await_all();
  mpi_check(MPI_Allgather(&mine, 1, MPI_INT, texts.lengths.data(), 1, MPI_INT, handle_));
  texts.make_room();
  mpi_check(MPI_Allgatherv(text.data(), mine, MPI_CHAR, texts.all.data(), texts.lengths.data(),
                           texts.offsets.data(), MPI_CHAR, handle_));
  return texts.apart();
}

std::string Comm::first_text(const std::string& text) const {
  const std::int64_t first = -max(std::int64_t{text.empty() ? -size_ : -rank_});
  return first == size_ ? std::string() : broadcast(text, narrow<int>(first));
}

MpiSession::MpiSession(int* argc, char*** argv) {
  stay_alone_without_launcher();
  int provided = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    throw Error("MPI could not be initialised", "start the program with mpirun, srun or mpiexec");
  // Simulated ranks are threads of one process that take turns; they have no threads of their own.
  require(simulation::kOn || provided >= MPI_THREAD_FUNNELED,
          "this MPI library does not support multithreaded processes",
          "use an MPI built with thread support (level FUNNELED or above)");
  world_ = Comm(MPI_COMM_WORLD, false);
}

MpiSession::~MpiSession() {
  world_ = Comm();  // frees the communicator of its node, too
  MPI_Finalize();
}

void MpiSession::abort(int exit_code) const {
  MPI_Abort(world_.handle(), exit_code);
  std::abort();
}

std::string MpiSession::library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  mpi_check(MPI_Get_library_version(text, &length));
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of("\n,"));
}

Requests::~Requests() {
  if (unwinding()) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  for (auto& request : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  if (cancelled_ != MPI_REQUEST_NULL) MPI_Request_free(&cancelled_);
}

MPI_Request* Requests::add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

void Requests::start_all() {
  if (!requests_.empty())
    mpi_check(MPI_Startall(static_cast<int>(requests_.size()), requests_.data()));
}

bool Requests::test_all() {
  int done = 1;
  if (!requests_.empty())
    mpi_check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                          MPI_STATUSES_IGNORE));
  return done != 0;
}

void Requests::wait_all() {
  if constexpr (simulation::kOn)
    mpi_check(
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
  else
    try_until([&] { return test_all(); });
}

// Returns the index of a completed request among `count`, or MPI_UNDEFINED. SMPI keeps each message
// that a test has found complete in a list of its rank, which all waits search; messages that
// complete in a wait leave the list. So this waits, with a cancelled receive, which is always
// complete, as the last request.
int Requests::simulated_test(std::size_t first, std::size_t count) {
  if (cancelled_ == MPI_REQUEST_NULL) {
    mpi_check(MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &cancelled_));
    mpi_check(MPI_Cancel(&cancelled_));
  }
  const auto begin = requests_.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<MPI_Request> waited(begin, begin + static_cast<std::ptrdiff_t>(count));
  waited.push_back(cancelled_);
  int index = MPI_UNDEFINED;
  mpi_check(MPI_Waitany(narrow<int>(waited.size()), waited.data(), &index, MPI_STATUS_IGNORE));
  cancelled_ = waited.back();
  std::copy_n(waited.begin(), count, begin);
  return index == narrow<int>(count) ? MPI_UNDEFINED : index;
}

bool Requests::take_completed(bool wait, std::vector<int>& indices) {
  if (requests_.empty()) return false;
  const std::size_t known = indices.size();
  indices.resize(known + requests_.size());
  int count = 0;
  const auto take = [&](const auto& call) {
    mpi_check(call(static_cast<int>(requests_.size()), requests_.data(), &count,
                   indices.data() + known, MPI_STATUSES_IGNORE));
    return count != 0;
  };
  if constexpr (simulation::kOn)
    take([&](int requests, MPI_Request* first, int* taken, int* index, MPI_Status*) {
      if (wait)
        mpi_check(MPI_Waitany(requests, first, index, MPI_STATUS_IGNORE));
      else
        *index = simulated_test(0, requests_.size());
      *taken = *index != MPI_UNDEFINED ? 1 : wait ? MPI_UNDEFINED : 0;
      return MPI_SUCCESS;
    });
  else if (!wait)
    take(MPI_Testsome);
  else
    try_until([&] { return take(MPI_Testsome); });
  const bool some = count != MPI_UNDEFINED;
  indices.resize(known + static_cast<std::size_t>(some ? count : 0));
  return some;
}

void Requests::clear() {
  wait_all();
  requests_.clear();
}

bool Requests::test(std::size_t index) {
  if constexpr (simulation::kOn) return simulated_test(index, 1) == 0;
  int done = 0;
  mpi_check(MPI_Test(&requests_.at(index), &done, MPI_STATUS_IGNORE));
  return done != 0;
}

void Requests::wait(std::size_t index) {
  MPI_Request* const request = &requests_.at(index);
  if constexpr (simulation::kOn)
    mpi_check(MPI_Wait(request, MPI_STATUS_IGNORE));
  else
    try_until([&] {
      int done = 0;
      mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    });
}

}  // namespace halomesh
