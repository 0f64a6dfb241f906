// SPDX-License-Identifier: Apache-2.0
// Every reader rejects files that are not regular at once: it does not wait for a FIFO or read a
// device.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/data/open_dataset.hpp"
#include "runtime/data/tfrecord.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/log/mllog.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "test/harness/temp_files.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* says;  // in the message
  std::function<void(const fs::path&)> make;
};

void make_socket(const fs::path& path) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.native().copy(address.sun_path, sizeof address.sun_path - 1) ==
          path.native().size());
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

void make_fifo(const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0666) == 0); }

const std::vector<Kind> kKinds = {
    {"is a FIFO", make_fifo},
    {"is a socket", make_socket},
    {"is a device", [](const fs::path& path) { fs::create_symlink("/dev/zero", path); }},
    {"is a device", [](const fs::path& path) { fs::create_symlink("/dev/tty", path); }},
    {"is a directory", [](const fs::path& path) { fs::create_directory(path); }},
    {"is a FIFO", [](const fs::path& path) {
       make_fifo(path.string() + "-fifo");
       fs::create_symlink(path.string() + "-fifo", path);
     }}};

struct Reader {
  const char* file;  // in the directory that is given to the reader
  std::function<void(const fs::path&)> read;
  bool lists = false;  // its directory for files, and skips directories
  const char* wanted = "regular file";
};

void open_split(const fs::path& directory) {
  open_dataset(test_world(), directory, "train", {1, 4, 4, 4}, 4);
}

const std::vector<Reader> kReaders = {
    {"train/a.tfrecord", open_split, true},
    {"train/a.hdf5", open_split, true},
    {"train-00000.h5", open_split, true},
    {"f", [](const fs::path& d) { TfRecordReader(1000).open((d / "f").native()); }},
    {"f", [](const fs::path& d) { Hdf5File::open(d / "f"); }},
    {"f", [](const fs::path& d) { CheckpointReader{d / "f"}; }, false, "checkpoint"},
    {"f", [](const fs::path& d) { read_input_file(d / "f"); }},
    {"metrics.jsonl", [](const fs::path& d) { MetricsLog(d / "metrics.jsonl", 1); }},
    {"metrics.jsonl", [](const fs::path& d) { MetricsLog(d / "metrics.jsonl"); }},
    {"mllog.txt", [](const fs::path& d) {
       MlperfLog(MlperfVersion::kV10).open(d / "mllog.txt", {1, 0, true, true, false});
     }}};

}  // namespace

TEST_CASE("no reader opens anything but regular files") {
  int refused = 0;
  for (const Kind& kind : kKinds)
    for (const Reader& reader : kReaders) {
      const TempDirectory directory;
      fs::create_directory(directory / "train");
      CAPTURE(reader.file);
      CAPTURE(kind.says);
      kind.make(directory / reader.file);
      const std::string error = error_of([&] { reader.read(directory.path()); });
      if (reader.lists && fs::is_directory(directory / reader.file))
        CHECK(!error.empty());
      else
        CHECK(contains(error, fmt::format("{}, not a {}", kind.says, reader.wanted)));
      CHECK(contains(error, reader.lists ? "train" : reader.file));
      ++refused;
    }
  CHECK(refused == std::ssize(kKinds) * std::ssize(kReaders));
}

TEST_CASE("an input file is read whole, through links, up to a bound") {
  const TempDirectory directory;
  const std::string text(100'000, 'x');
  put_contents(directory / "f", text);
  fs::create_symlink("f", directory / "link");
  CHECK(read_input_file(directory / "link") == text);
  CHECK(read_input_file(directory / "link", 100'000) == text);
  CHECK(contains(error_of([&] { read_input_file(directory / "f", 99'999); }), "is larger than"));
  fs::create_symlink("nothing", directory / "dangling");
  CHECK(contains(error_of([&] { read_input_file(directory / "none"); }),
                 fmt::format("cannot open {}: No such file", (directory / "none").string())));
  CHECK(contains(error_of([&] { read_input_file(directory / "dangling"); }),
                 "dangling is a link to nothing, which does not exist"));
  const std::string lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n";
  for (const auto& [pointer, tool] : {std::pair{lfs, "Git LFS"},
                                      {"/annex/objects/SHA256E-s9--1", "git-annex"},
                                      {"../../.git/annex/objects/x/SHA256E-s9--1", "git-annex"}}) {
    put_contents(directory / "s.nii", pointer);
    CHECK(contains(error_of([&] { read_input_file(directory / "s.nii"); }),
                   fmt::format("s.nii only says where {} has the file", tool)));
    CHECK(contains(error_of([&] { Hdf5File::open(directory / "s.nii"); }), tool));
  }
  put_contents(directory / "s.nii", "version 1");
  CHECK(read_input_file(directory / "s.nii") == "version 1");
}

}  // namespace halomesh
