// SPDX-License-Identifier: Apache-2.0
// Files for passing data between the ranks of one node: see node_files.hpp.
#include "runtime/stage/node_files.hpp"

#include <cstddef>
#include <sstream>
#include <string>

#include "runtime/posix/process_file.hpp"

namespace halomesh {
namespace {

/// Gathers one text per rank of the node, as streams in the order of its ranks.
std::vector<std::istringstream> gather(const Comm& node, const std::ostringstream& mine) {
  std::vector<std::istringstream> all;
  for (const std::string& text : node.all_gather(mine.str())) all.emplace_back(text);
  return all;
}

}  // namespace

NodeFiles exchange_node_files(const Comm& group, bool reads,
                              const std::function<Descriptor()>& make) {
  const Comm node = group.split_by_node();
  const auto self = static_cast<std::size_t>(node.rank());
  NodeFiles files;
  files.outgoing.resize(static_cast<std::size_t>(group.size()));
  files.incoming.resize(static_cast<std::size_t>(group.size()));

  std::ostringstream hello;
  hello << group.rank() << ' ' << reads;
  std::vector<std::size_t> ranks;  // ranks of the group, by rank in the node
  std::vector<bool> readers;
  for (std::istringstream& text : gather(node, hello)) {
    std::size_t rank = 0;
    bool reader = false;
    text >> rank >> reader;
    ranks.push_back(rank);
    readers.push_back(reader);
  }

  std::ostringstream offers;
  for (std::size_t to = 0; to < ranks.size(); ++to) {
    ProcessFile file;
    if (to != self && readers[to]) file = ProcessFile::of(files.outgoing[ranks[to]] = make());
    offers << file << ' ';
  }
  std::vector<std::istringstream> offered = gather(node, offers);

  std::ostringstream opened;
  for (std::size_t from = 0; from < ranks.size(); ++from) {
    ProcessFile file;
    for (std::size_t to = 0; to <= self; ++to) offered[from] >> file;
    const Descriptor& mine = files.incoming[ranks[from]] = file.open();
    opened << (mine.get() >= 0) << ' ';
  }
  std::vector<std::istringstream> answers = gather(node, opened);
  for (std::size_t to = 0; to < ranks.size(); ++to) {
    bool can_read = false;
    for (std::size_t from = 0; from <= self; ++from) answers[to] >> can_read;
    if (!can_read) files.outgoing[ranks[to]] = Descriptor();
  }
  return files;
}

}  // namespace halomesh
