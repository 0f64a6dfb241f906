// Filters of HDF5 beyond those that halomesh knows: how they are named, and whether they work here.
// Knows nothing of files.
#pragma once

#include <iosfwd>
#include <optional>
#include <string_view>
#include <vector>

namespace halomesh {

/// A filter by its number in The HDF Group's registry, part of the library or of a plugin (32004 is
/// LZ4, 32015 Zstandard), and the values that its documentation asks for, such as a level.
struct Hdf5Filter {
  int number = 0;
  std::vector<unsigned> values;
  friend bool operator==(const Hdf5Filter&, const Hdf5Filter&) = default;
};

/// "32015,3": the number, then the values.
std::ostream& operator<<(std::ostream& out, const Hdf5Filter& filter);
/// The filter that prints so; nothing when none does.
std::optional<Hdf5Filter> filter_named(std::string_view text);

/// Whether the library, or a plugin that it finds, has a filter of this number.
bool has_filter(int number);
/// Sends chunks of counts through the filter and back, in memory. Throws Error when the library
/// has no such filter, it cannot work with these values, or the counts come back changed.
void require_filter(const Hdf5Filter& filter);

}  // namespace halomesh
