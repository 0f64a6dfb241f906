// SPDX-License-Identifier: Apache-2.0
// MPI calls that are counted: see counted_messages.hpp.
#include "test/mpi/counted_messages.hpp"

#include <mpi.h>

#include <map>

namespace halomesh {
namespace {

CountedMessages counted;
std::map<MPI_Request, std::int64_t> persistent;  // bytes of each persistent send

std::int64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return std::int64_t{count} * size;
}

}  // namespace

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
  return PMPI_Startall(count, requests);
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
