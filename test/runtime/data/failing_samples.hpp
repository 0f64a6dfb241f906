// SPDX-License-Identifier: Apache-2.0
// Files of samples that the system fails to read.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/data/open_dataset.hpp"
#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"
#include "test/runtime/posix/failing_reads.hpp"

namespace halomesh {

/// Opens a data set and reads its samples with one read of `name` failing, for each in turn.
inline void check_each_read(const std::string& name, const Shape& shape, const TargetSpec& targets,
                            const std::function<void(const std::filesystem::path& train)>& make) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory / "train");
  make(directory / "train");
  const Comm alone = test_world().split(test_world().rank(), 0);
  std::int64_t reads = 0;
  for (bool failed = true; failed; ++reads) {
    CAPTURE(reads);
    const FailingRead failing(name, ESTALE, reads);
    const std::string error = error_of([&] {
      const auto data = open_dataset(alone, directory.path(), "train", shape, targets);
      const auto reader = data->reader();
      for (std::int64_t sample = 0; sample < data->size(); ++sample) {
        const Shape extents = data->shape_of(sample);
        const Tensor values(Box::whole(extents), 1, data->format().type());
        reader->read(sample, values.any_view(), {});
        if (data->has_labels()) reader->stream_labels(sample, [](auto, auto) {});
      }
    });
    failed = failing.has_failed();
    CAPTURE(error);
    if (!failed) {
      CHECK(error.empty());
    } else {
      CHECK(contains(error, "cannot read "));
      CHECK(contains(error, "Stale file handle | the file may be whole"));
    }
  }
  CHECK(reads > 2);
}

}  // namespace halomesh
