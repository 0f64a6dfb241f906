// SPDX-License-Identifier: Apache-2.0
// Headers and blocks of .npy files: see npy_array.hpp. The format is numpy.lib.format's.
#include "runtime/hdf5/npy_array.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/read_counts.hpp"

namespace halomesh {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeader = std::size_t{1} << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what,
                         const std::string& cure) {
  throw Error(fmt::format("{}: {}", path.c_str(), what), cure);
}

/// The text of the header behind magic, version and its own length, which `begin` gets.
std::string header_of(const std::filesystem::path& path, std::int64_t& begin) {
  const std::string head = read_head(path, kMostHeader);
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(head[i]));
  };
  const std::size_t first = head.size() > kMagic.size() && byte(kMagic.size()) > 1 ? 12 : 10;
  std::size_t length = 0;
  const bool whole =
      head.size() >= first && head.starts_with(kMagic) && byte(6) >= 1 && byte(6) <= 3;
  for (std::size_t i = first; whole && i > 8; --i) length = length << 8U | byte(i - 1);
  if (!whole || length > head.size() - first)
    refuse(path, "it has no header of version 1, 2 or 3 of a .npy file",
           "write it by numpy.save, or copy it again");
  begin = static_cast<std::int64_t>(first + length);
  return head.substr(first, length);
}

/// The text behind a key of the header, up to one of `ends`; empty if there is no such key.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view ends) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(std::min(header.find(':', at) + 1, header.size()));
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header.substr(0, header.find_first_of(ends, 1));
}

}  // namespace

NpyArray::NpyArray(const std::filesystem::path& path) : path_(path) {
  parse(header_of(path, offset_));
  std::int64_t bytes = size_of(type_);
  for (const std::int64_t extent : extents_) bytes *= extent;
  std::error_code ignored;
  const auto there = static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  if (bytes < 1 || there - offset_ < bytes)
    refuse(path,
           bytes < 1 ? "it holds no element"
                     : fmt::format("it has {} of the {} bytes of its elements",
                                   std::max<std::int64_t>(there - offset_, 0), bytes),
           "copy it again, or keep it out of the data set");
}

void NpyArray::parse(std::string_view header) {
  const std::string_view order = value_of(header, "'fortran_order'", ",}");
  const std::string_view shape = value_of(header, "'shape'", ")");
  if (!shape.starts_with('(') || (order != "True" && order != "False"))
    refuse(path_, "its header has no shape or no order", "write it again by numpy.save");
  is_fortran_ = order == "True";
  std::string_view rest = shape.substr(1);
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_of("0123456789"), rest.size()));
    if (rest.empty()) break;
    const auto [end, code] =
        std::from_chars(rest.data(), rest.data() + rest.size(), extents_.emplace_back());
    if (code != std::errc()) refuse(path_, "its header has no valid shape", "write it again");
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  parse_type(value_of(header, "'descr'", ",}"));
}

/// Takes a type such as '<f4'.
void NpyArray::parse_type(std::string_view text) {
  constexpr bool kLittle = std::endian::native == std::endian::little;
  std::string_view code = text;
  if (code.size() >= 2) code = code.substr(1, code.size() - 2);
  const char order = code.empty() ? ' ' : code.front();
  if (!code.empty()) code.remove_prefix(1);
  is_swapped_ = order == (kLittle ? '>' : '<');
  if (code == "b1") code = "u1";  // booleans
  for (const Hdf5Type type : kHdf5Types) {
    const std::string_view name = name_of(type);
    if (code == fmt::format("{}{}", name.front(), size_of(type))) {
      type_ = type;
      return;
    }
  }
  refuse(path_, fmt::format("it holds elements of {}, not numbers of 8 to 64 bits", text),
         code == "f2" ? "save it as float32: numpy.save(NAME, array.astype('float32'))"
                      : "save integers, float32 or float64");
}

namespace {

/// Copies elements from the order in which the first axis is the fastest to the one in which the
/// last one is.
void reverse_axes(const Extents& count, std::size_t bytes, const std::byte* from,
                  std::span<std::byte> to) {
  Extents at(count.size(), 0);
  for (std::size_t i = 0; i < to.size(); i += bytes) {
    std::size_t source = 0;
    for (std::size_t axis = count.size(); axis > 0; --axis)
      source = source * static_cast<std::size_t>(count[axis - 1]) +
               static_cast<std::size_t>(at[axis - 1]);
    std::memcpy(to.data() + i, from + source * bytes, bytes);
    for (std::size_t axis = count.size(); axis > 0 && ++at[axis - 1] == count[axis - 1]; --axis)
      at[axis - 1] = 0;
  }
}

}  // namespace

void NpyArray::read(const Slab& block, std::span<std::byte> values) const {
  const CountedRead counted;
  const Descriptor file = open_input_file(path_.string());
  const auto bytes = static_cast<std::size_t>(size_of(type_));
  Extents all = extents_, first = block.offset, count = block.count;
  if (is_fortran_)
    for (Extents* const axes : {&all, &first, &count}) std::reverse(axes->begin(), axes->end());
  std::vector<std::byte> in_file(is_fortran_ ? values.size() : 0);
  const std::span<std::byte> to = is_fortran_ ? std::span(in_file) : values;
  // The last axes form one run of the file, as far as all but the first of them are read whole.
  std::size_t outer = count.size();
  std::int64_t run = 1;
  for (bool whole = true; outer > 0 && whole; --outer) {
    run *= count[outer - 1];
    whole = count[outer - 1] == all[outer - 1];
  }
  Extents at(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(outer));
  const std::size_t run_bytes = static_cast<std::size_t>(run) * bytes;
  for (std::size_t done = 0; done < to.size(); done += run_bytes) {
    std::int64_t element = 0;
    for (std::size_t axis = 0; axis < all.size(); ++axis)
      element = element * all[axis] + (axis < outer ? at[axis] : first[axis]);
    read_at(file, path_, offset_ + element * static_cast<std::int64_t>(bytes),
            to.subspan(done, run_bytes));
    for (std::size_t axis = outer; axis > 0 && ++at[axis - 1] == first[axis - 1] + count[axis - 1];
         --axis)
      at[axis - 1] = first[axis - 1];
  }
  counted.count(std::ssize(values));
  if (is_swapped_)
    for (std::size_t i = 0; i < to.size(); i += bytes)
      std::reverse(to.begin() + static_cast<std::ptrdiff_t>(i),
                   to.begin() + static_cast<std::ptrdiff_t>(i + bytes));
  if (is_fortran_) reverse_axes(block.count, bytes, in_file.data(), values);
}

}  // namespace halomesh
