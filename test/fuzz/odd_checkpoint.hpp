// SPDX-License-Identifier: Apache-2.0
// A sound HDF5 file with what a checkpoint has, each part of it right, odd or missing. For the
// network of checkpoint_fuzz.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/crc32c.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {

/// Takes choices and values from the bytes of an input; 0 when there are no more.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}
  template <class T>
  T next() {
    T value{};
    const std::size_t count = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  unsigned below(unsigned bound) { return next<std::uint8_t>() % bound; }
  std::string next_text() {
    const std::size_t count = std::min<std::size_t>(below(40), bytes_.size());
    std::string text(as_text(bytes_.first(count)));
    bytes_ = bytes_.subspan(count);
    return text;
  }

 private:
  Bytes bytes_;
};

/// An attribute of the type T, of another one, or none.
template <class T>
void put_attribute(Hdf5File& file, const std::string& name, const T& usual, Choices& choices) {
  switch (choices.below(7)) {
    case 0:
      file.write_attribute("/", name, usual);
      break;
    case 1:
      file.write_attribute("/", name, choices.next<std::int64_t>());
      break;
    case 2:
      file.write_attribute("/", name, choices.next<std::uint64_t>());
      break;
    case 3:
      file.write_attribute("/", name, choices.next<double>());
      break;
    case 4:
      file.write_attribute("/", name, choices.next_text());
      break;
    case 5:
      file.create_group("/" + name);
      break;
    default:
      break;
  }
}

inline void put_settings(Hdf5File& file, const std::string& group, Choices& choices) {
  if (choices.below(8) == 1) return;
  file.create_group(group);
  for (unsigned left = choices.below(4); left > 0; --left) {
    const std::string name = choices.next_text();
    if (!name.empty() && name.find('\0') == std::string::npos)
      file.write_attribute(group, name, choices.next_text());
  }
}

/// A dataset of the network: right, of another type or shape, or none.
inline void put_dataset(Hdf5File& file, const std::string& name, Extents extents,
                        Choices& choices) {
  const unsigned kind = choices.below(8);
  if (kind == 1) return;
  if (kind == 2) extents.push_back(choices.below(4) + 1);
  if (kind == 3) extents.front() = std::int64_t{1} << choices.below(63);
  if (kind == 4) extents.pop_back();
  if (kind == 5) return file.create_group(name);
  const Hdf5Type type = kind == 6 ? static_cast<Hdf5Type>(choices.below(6)) : Hdf5Type::kFloat;
  file.create_dataset(name, type, extents);
  if (kind != 0) return;
  std::vector<float> values(extents.size() == 1 ? 2 : 8);
  for (float& value : values) value = choices.next<float>();
  file.write<float>(name, Slab::whole(extents), values);
  if (choices.below(2) == 0)
    file.write_attribute(name, "crc32c", crc32c(std::as_bytes(std::span(values))));
}

/// Writes the file that `bytes` choose; without bytes, a sound one without a checksum of its state.
/// Throws Error where HDF5 refuses to write it.
inline void write_odd_checkpoint(const std::filesystem::path& path, Bytes bytes) {
  Choices choices(bytes);
  Hdf5File file = Hdf5File::create(path);
  put_attribute(file, "format", std::int64_t{1}, choices);
  for (const char* name : {"step", "epoch", "samples_into_epoch"})
    put_attribute(file, name, choices.next<std::int64_t>(), choices);
  put_attribute(file, "seed", choices.next<std::uint64_t>(), choices);
  put_attribute(file, "written_by", choices.next_text(), choices);
  if (choices.below(2) == 1) put_attribute(file, "crc32c", choices.next<std::uint32_t>(), choices);
  put_settings(file, "/model", choices);
  put_settings(file, "/run", choices);
  for (const std::string tree : {"/parameters", "/optimizer"}) {
    put_dataset(file, tree + "/fc/weight", {2, 4}, choices);
    put_dataset(file, tree + "/fc/bias", {2}, choices);
    if (choices.below(8) == 1) file.create_group(tree + "/" + choices.next_text());
  }
  file.close();
}

}  // namespace halomesh::fuzz
