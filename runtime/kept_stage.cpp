// A stage that outlives its run: see kept_stage.hpp.
#include "runtime/kept_stage.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "error.hpp"
#include "runtime/atomic_file.hpp"
#include "runtime/crc32c.hpp"

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

/// The manifest's splits, or null when it is damaged or of another stage.
Json splits_of(const std::string& text, const std::string& key) {
  const Json all = Json::parse(text, nullptr, false);
  if (!all.is_object() || !all.contains("stage") || !all.contains("checksum")) return {};
  const Json& stage = all.at("stage");
  if (all.at("checksum") != checksum(stage.dump()) || stage.at("key") != key) return {};
  return stage.at("splits");
}

bool shorter_than(const Descriptor& file, const std::vector<StageFile::Entry>& index) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return true;
  return std::any_of(index.begin(), index.end(), [&](const StageFile::Entry& entry) {
    return entry.offset < 0 || entry.bytes < 0 || entry.offset + entry.bytes > status.st_size;
  });
}

}  // namespace

std::string KeptStage::directory_name(const std::string& key) {
  // FNV-1a (Fowler, Noll, Vo), 64 bits; the manifest holds the key itself.
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return std::string("halomesh-stage-") + digits.data();
}

bool KeptStage::exists(const std::filesystem::path& parent, const std::string& key) {
  std::error_code none;
  return std::filesystem::exists(
      std::filesystem::symlink_status(parent / directory_name(key), none));
}

KeptStage::KeptStage(const std::filesystem::path& parent, std::string key, int rank)
    : directory_(parent / directory_name(key)),
      key_(std::move(key)),
      prefix_(cat("rank-", rank, '.')),
      manifest_(Json{{"key", key_}, {"splits", Json::object()}}.dump()) {
  require(directory_.belongs_to_user(), cat(directory_.path().string(), " belongs to another user"),
          "give another --stage-dir");
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
    Split& kept = found.emplace_back();
    kept.file = directory_.existing_file(name(split));
    if (kept.file.get() < 0) return {};
    for (const Json& entry : splits.at(split).at("index"))
      kept.index.push_back({entry.at(0), entry.at(1), entry.at(2)});
    if (shorter_than(kept.file, kept.index)) return {};
    kept.targets = splits.at(split).at("targets").get<std::vector<float>>();
  }
  return found;
}

void KeptStage::add(const std::string& split, const StageFile& file,
                    const std::vector<float>& targets) {
  if (::fsync(file.file().get()) != 0)
    throw Error(
        cat("cannot write the stage in ", directory_.path().string(), ": ", std::strerror(errno)),
        "make room there");
  directory_.name_file(file.file(), name(split));
  Json index = Json::array();
  for (const StageFile::Entry& entry : file.index())
    index.push_back({entry.offset, entry.bytes, entry.checksum});
  Json all = Json::parse(manifest_);
  all["splits"][split] = {{"index", index}, {"targets", targets}};
  manifest_ = all.dump();
}

void KeptStage::complete() {
  const Json all{{"stage", Json::parse(manifest_)}, {"checksum", checksum(manifest_)}};
  write_file_atomically(directory_.path() / name("json"), all.dump() + '\n');
}

void KeptStage::clear(const std::vector<std::string>& names) {
  directory_.remove_file(name("json"));  // first: without it, the rest counts as nothing
  for (const std::string& split : names) directory_.remove_file(name(split));
  directory_.remove_file("." + name("json") + ".partial");
}

void KeptStage::remove(const std::vector<std::string>& names) {
  clear(names);
  directory_.remove_file(name("lock"));
  lock_ = Descriptor();
  directory_.remove_if_empty();
}

}  // namespace halomesh
