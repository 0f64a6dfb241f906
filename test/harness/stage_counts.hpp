// SPDX-License-Identifier: Apache-2.0
// Moves blocks of counts, or of other values, to and from the files of a stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// Writes a whole block.
template <class T>
void write_block(StageFile& file, std::int64_t slot, const std::vector<T>& values) {
  file.append(slot, std::as_bytes(std::span(values)));
}

/// The verified values of a slot, in place or in `room`.
template <class T>
std::span<const T> read_block(StageFile& file, std::int64_t slot, std::vector<T>& room) {
  const std::span<const std::byte> bytes = file.read(slot, std::as_writable_bytes(std::span(room)));
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace halomesh
