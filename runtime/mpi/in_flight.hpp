// SPDX-License-Identifier: Apache-2.0
// The fate of communication while an exception unwinds: one policy for all code that starts
// requests.
//
// The other ranks may then be anywhere, and main() ends them all: waiting for them would only hang.
// So destructors neither wait for requests nor free communicators while unwinding(). Requests stay
// active until the process is aborted, and MPI may still read or write their memory: the owner of
// such memory keeps it as InFlight, which then leaks it.
#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace halomesh {

/// True in destructors that run because an exception unwinds.
inline bool unwinding() { return std::uncaught_exceptions() > 0; }

/// Owns memory that requests may refer to, at an address that does not change; leaks it while
/// unwinding(). Declare it before the requests, so that they are waited for first.
template <class T>
class InFlight {
 public:
  template <class... Arguments>
  explicit InFlight(Arguments&&... arguments)
      : value_(std::make_unique<T>(std::forward<Arguments>(arguments)...)) {}
  InFlight(InFlight&&) noexcept = default;
  InFlight& operator=(InFlight&&) noexcept = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() {
    if (unwinding()) value_.release();  // NOLINT(bugprone-unused-return-value): see above
  }

  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace halomesh
