// SPDX-License-Identifier: Apache-2.0
// A flag shared by the ranks of a node.
#pragma once

#include <atomic>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A flag, initially cleared, that the ranks of a node share if each can open the memory of their
/// first one; otherwise each rank has its own. It needs neither MPI's shared windows nor /dev/shm:
/// if that is full, an MPI library may return from making such a window on one rank and wait for
/// ever on another. Lock-free, so that signal handlers may use it.
class NodeFlag {
 public:
  /// Collective over `node`, a communicator of split_by_node().
  explicit NodeFlag(const Comm& node);
  NodeFlag(const NodeFlag&) = delete;
  NodeFlag& operator=(const NodeFlag&) = delete;
  ~NodeFlag();

  std::atomic<int>* get() const { return flag_; }
  bool is_shared() const { return flag_ != &own_; }

 private:
  mutable std::atomic<int> own_{0};
  std::atomic<int>* flag_ = &own_;
};

}  // namespace halomesh
