// SPDX-License-Identifier: Apache-2.0
// MPI calls that are counted: see counted_messages.hpp.
#include "test/mpi/counted_messages.hpp"

#include <mpi.h>

#include <map>
#include <vector>

namespace halomesh {
namespace {

CountedMessages counted;
std::map<MPI_Request, std::int64_t> persistent;  // bytes of each persistent send

std::int64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return std::int64_t{count} * size;
}

bool holds = false;
std::int64_t held_sends = 0;
std::vector<MPI_Request> held;  // started by the program, but not yet by MPI

int release() {
  std::vector<MPI_Request> all;
  all.swap(held);
  return all.empty() ? MPI_SUCCESS : PMPI_Startall(static_cast<int>(all.size()), all.data());
}

}  // namespace

LateSends::LateSends() {
  holds = true;
  held_sends = 0;
}
LateSends::~LateSends() {
  release();
  holds = false;
}
std::int64_t LateSends::held() const { return held_sends; }

const CountedMessages& counted_messages() { return counted; }

}  // namespace halomesh

// NOLINTBEGIN(readability-identifier-naming): the names are MPI's
extern "C" int MPI_Send_init(const void* buffer, int count, MPI_Datatype type, int dest, int tag,
                             MPI_Comm comm, MPI_Request* request) {
  const int code = PMPI_Send_init(buffer, count, type, dest, tag, comm, request);
  halomesh::persistent[*request] = halomesh::bytes_of(count, type);
  return code;
}

extern "C" int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int source, int tag,
                             MPI_Comm comm, MPI_Request* request) {
  const int code = PMPI_Recv_init(buffer, count, type, source, tag, comm, request);
  halomesh::persistent.erase(*request);  // the handle may have been that of a send
  return code;
}

extern "C" int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i)
    if (const auto at = halomesh::persistent.find(requests[i]); at != halomesh::persistent.end()) {
      ++halomesh::counted.sends;
      halomesh::counted.sent_bytes += at->second;
    }
  if (!halomesh::holds) return PMPI_Startall(count, requests);
  for (int i = 0; i < count; ++i) {
    if (halomesh::persistent.count(requests[i]) == 0) {
      PMPI_Start(&requests[i]);
    } else {
      halomesh::held.push_back(requests[i]);
      ++halomesh::held_sends;
    }
  }
  return MPI_SUCCESS;
}

extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  halomesh::release();
  return PMPI_Test(request, done, status);
}

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  halomesh::release();
  return PMPI_Testall(count, requests, done, statuses);
}

extern "C" int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  halomesh::release();
  return PMPI_Waitall(count, requests, statuses);
}

extern "C" int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int dest, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (type == MPI_FLOAT) halomesh::counted.float_bytes += halomesh::bytes_of(count, type);
  return PMPI_Isend(buffer, count, type, dest, tag, comm, request);
}

extern "C" int MPI_Iallreduce(const void* values, void* results, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  ++halomesh::counted.sums;
  halomesh::counted.summed_bytes += halomesh::bytes_of(count, type);
  return PMPI_Iallreduce(values, results, count, type, op, comm, request);
}
// NOLINTEND(readability-identifier-naming)
