// SPDX-License-Identifier: Apache-2.0
// Sets the number of OpenMP threads during its lifetime.
#pragma once

#include <omp.h>

namespace halomesh {

class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace halomesh
