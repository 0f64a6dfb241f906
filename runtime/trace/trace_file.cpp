// SPDX-License-Identifier: Apache-2.0
// A JSON file that many ranks write: see trace_file.hpp.
#include "runtime/trace/trace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/descriptor.hpp"
#include "runtime/trace/gzip.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& file) {
  throw system_error(action, file, errno,
                     "check that its directory exists on every node, may be written to and has "
                     "space left");
}

/// Writes `bytes` to `temporary` at `offset`; messages name `file`.
void write_at(const std::filesystem::path& file, const std::filesystem::path& temporary, int flags,
              std::string_view bytes, std::int64_t offset) {
  const Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (out.get() < 0) fail("create", file);
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(out.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", file);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    offset += count;
  }
  if (::fsync(out.get()) != 0) fail("write", file);
}

/// The offset of this rank's piece, and the total size.
struct Place {
  std::int64_t offset = 0, total = 0;
};

Place place_of(const Comm& comm, std::int64_t size) {
  std::int64_t before = 0;
  mpi_check(MPI_Exscan(&size, &before, 1, MPI_INT64_T, MPI_SUM, comm.handle()));
  return {comm.rank() == 0 ? 0 : before, comm.sum(size)};
}

/// The sums of all ranks in their order, on rank 0; empty elsewhere.
std::vector<GzipSum> sums_of(const Comm& comm, const GzipSum& mine) {
  std::vector<GzipSum> all(comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0);
  constexpr int kBytes = sizeof(GzipSum);
  mpi_check(MPI_Gather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, 0, comm.handle()));
  return all;
}

}  // namespace

std::int64_t write_trace_file(const Comm& world, const std::filesystem::path& file,
                              const std::string& opening, const std::string& text) {
  const bool first = world.rank() == 0, zipped = file.extension() == ".gz";
  const auto piece_of = [zipped](std::string_view bytes) {
    return zipped ? gzip_piece(bytes) : GzipPiece{std::string(bytes), {}};
  };
  std::optional<AtomicFile> target;  // on rank 0, which alone renames or removes
  if (first) target.emplace(file);
  const std::filesystem::path temporary =
      world.broadcast(first ? target->temporary_path().string() : std::string(), 0);
  const Comm writers = world.split(first || !text.empty() ? 0 : -1, world.rank());
  std::int64_t size = 0;
  std::exception_ptr failure;
  if (!writers.is_null()) try {
      GzipPiece head, piece;
      on_every_rank(writers, [&] {
        if (first) head = piece_of(opening);
        if (!text.empty()) piece = piece_of(text);
        if (first) write_at(file, temporary, O_CREAT | O_TRUNC, "", 0);  // discards older leftovers
        return std::string();
      });
      GzipPiece tail = piece_of("\n]}\n");
      GzipSum all = head.sum;
      for (const GzipSum& sum : sums_of(writers, piece.sum)) all += sum;
      all += tail.sum;
      if (first) piece.bytes = (zipped ? gzip_begin() : "") + head.bytes + piece.bytes;
      if (zipped) tail.bytes += gzip_end(all);
      const Place place = place_of(writers, static_cast<std::int64_t>(piece.bytes.size()));
      on_every_rank(writers, [&] {
        write_at(file, temporary, 0, piece.bytes, place.offset);
        if (first) write_at(file, temporary, 0, tail.bytes, place.total);
        return std::string();
      });
      size = place.total + static_cast<std::int64_t>(tail.bytes.size());
    } catch (const std::exception&) {
      failure = std::current_exception();  // all writers have this failure; rank 0 tells the others
    }
  on_first_rank(world, [&] {
    if (failure) std::rethrow_exception(failure);
    target->commit();
    return std::string();
  });
  return world.max(size);
}

}  // namespace halomesh
