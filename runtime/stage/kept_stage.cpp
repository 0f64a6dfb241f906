// SPDX-License-Identifier: Apache-2.0
// A stage that is kept after its run: see kept_stage.hpp.
#include "runtime/stage/kept_stage.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "error.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/crc32c.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::json;

std::uint32_t checksum(const std::string& text) { return crc32c(std::as_bytes(std::span(text))); }

std::string read_all(const Descriptor& file) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t n = 0; (n = ::read(file.get(), piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(n));
  return text;
}

/// The manifest's splits; null if it is damaged or describes another stage.
Json splits_of(const std::string& text, const std::string& key) {
  const Json all = parse_json(text);
  if (!all.is_object() || !all.contains("stage") || !all.contains("checksum")) return {};
  const Json& stage = all.at("stage");
  if (all.at("checksum") != checksum(dump_json(stage)) || stage.at("key") != key) return {};
  return stage.at("splits");
}

/// True if the files are as long as the index requires.
bool hold(const std::vector<Descriptor>& files, const std::vector<StageFile::Entry>& index) {
  std::vector<std::int64_t> sizes;
  for (const Descriptor& file : files) {
    struct stat status {};
    sizes.push_back(::fstat(file.get(), &status) == 0 ? status.st_size : -1);
  }
  return std::all_of(index.begin(), index.end(), [&](const StageFile::Entry& entry) {
    return entry.file >= 0 && entry.file < std::ssize(sizes) && entry.offset >= 0 &&
           entry.bytes >= 0 &&
           entry.offset + entry.bytes <= sizes[static_cast<std::size_t>(entry.file)];
  });
}

std::string name_of(const std::string& split, std::size_t file) {
  return fmt::format("{}.{}", split, file);
}

}  // namespace

std::string KeptStage::directory_name(const std::string& key) {
  return fmt::format("halomesh-stage-{:016x}", content_hash(key));  // the manifest has the key
}

bool KeptStage::exists(const std::filesystem::path& parent, const std::string& key) {
  std::error_code none;
  return std::filesystem::exists(
      std::filesystem::symlink_status(parent / directory_name(key), none));
}

KeptStage::KeptStage(const std::filesystem::path& parent, std::string key, int rank)
    : directory_(parent / directory_name(key)),
      key_(std::move(key)),
      prefix_(fmt::format("rank-{}.", rank)),
      manifest_(dump_json(Json{{"key", key_}, {"splits", Json::object()}})) {
  require(directory_.belongs_to_user(),
          text("{} belongs to another user", directory_.path().c_str()),
          "give another --stage-dir");
}

KeptStage::~KeptStage() {
  if (lock_.get() < 0 || directory_.existing_file(name("json")).get() >= 0) return;
  try {
    remove();
  } catch (const Error&) {
    // The directory is no longer writable: the next run with this key clears it.
  }
}

std::string KeptStage::lock() {
  StageDirectory::Lock lock = directory_.lock(name("lock"));
  lock_ = std::move(lock.file);
  return lock.holder;
}

std::optional<std::vector<KeptStage::Split>> KeptStage::find(
    const std::vector<std::string>& names) const {
  const Descriptor manifest = directory_.existing_file(name("json"));
  if (manifest.get() < 0) return {};
  const Json splits = splits_of(read_all(manifest), key_);
  std::vector<Split> found;
  for (const std::string& split : names) {
    if (!splits.contains(split)) return {};
    const Json& stored = splits.at(split);
    Split& kept = found.emplace_back();
    for (std::size_t i = 0; i < stored.at("files").get<std::size_t>(); ++i) {
      kept.files.push_back(directory_.existing_file(name(name_of(split, i))));
      if (kept.files.back().get() < 0) return {};
    }
    for (const Json& entry : stored.at("index"))
      kept.index.push_back({entry.at(0), entry.at(1), entry.at(2), entry.at(3)});
    if (!hold(kept.files, kept.index)) return {};
    kept.targets = stored.at("targets").get<std::vector<float>>();
  }
  return found;
}

void KeptStage::add(const std::string& split, const StageFile& blocks,
                    const std::vector<float>& targets) {
  for (std::size_t i = 0; i < blocks.files().size(); ++i) {
    const Descriptor& file = blocks.files()[i].file();
    if (::fsync(file.get()) != 0)
      throw Error(fmt::format("cannot write the stage in {}: {}", directory_.path().c_str(),
                              std::strerror(errno)),
                  "free space there");
    directory_.name_file(file, name(name_of(split, i)));
  }
  Json index = Json::array();
  for (const StageFile::Entry& entry : blocks.index())
    index.push_back({entry.file, entry.offset, entry.bytes, entry.checksum});
  Json all = parse_json(manifest_);
  all["splits"][split] = {{"files", blocks.files().size()}, {"index", index}, {"targets", targets}};
  manifest_ = dump_json(all);
}

void KeptStage::complete() {
  const Json all{{"stage", parse_json(manifest_)}, {"checksum", checksum(manifest_)}};
  write_file_atomically(directory_.path() / name("json"), dump_json(all) + '\n');
}

void KeptStage::clear() {
  directory_.remove_file(name("json"));  // first, because the other files are ignored without it
  for (const std::string& file : directory_.names())
    if ((file.starts_with(prefix_) && file != name("lock")) || file.starts_with("." + prefix_))
      directory_.remove_file(file);
}

void KeptStage::remove() {
  clear();
  directory_.remove_file(name("lock"));
  lock_ = Descriptor();
  directory_.remove_if_empty();
}

}  // namespace halomesh
