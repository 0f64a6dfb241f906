// SPDX-License-Identifier: Apache-2.0
// The names of an archive's files.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace halomesh {

/// A name such as "train-00017.h5".
inline std::string archive_name(const std::string& split, std::int64_t file) {
  const std::string digits = std::to_string(file);
  return fmt::format("{}-{}{}.h5", split,
                     std::string(std::max<std::size_t>(5, digits.size()) - digits.size(), '0'),
                     digits);
}

/// True if archive_name() returns `name` for some file of `split`.
inline bool is_archive_name(std::string_view name, std::string_view split) {
  constexpr std::string_view kEnd = ".h5";
  if (!name.starts_with(fmt::format("{}-", split)) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(split.size() + 1);
  name.remove_suffix(std::min(kEnd.size(), name.size()));
  return name.size() >= 5 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace halomesh
