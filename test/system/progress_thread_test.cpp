// A thread that looks after messages: no digit changes, it ends with the run, and it is refused
// where there is no processor for it. Knows the program from outside only.
#include <doctest/doctest.h>
#include <sched.h>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// A processor that the ranks may use as well.
std::string own_processor() { return std::to_string(::sched_getcpu()); }

Scene two_parts(const std::string& progress) {
  Scene scene;
  scene.data = data_set(32, 32, 4);
  scene.ranks = 2;
  scene.options["parts"] = "2x1x1";
  scene.options["batch"] = "8";
  scene.options["augment"] = "on";
  scene.options["stage-dir"] = workshop().fresh("stage").string();
  scene.options["progress-thread"] = progress;
  return scene;
}

}  // namespace

TEST_CASE("a progress thread changes no digit and ends with the run") {
  const std::string processor = own_processor();
  const Scene without = two_parts("off"), with = two_parts(processor + "," + processor);
  for (const Scene* scene : {&without, &with}) {
    const Outcome outcome = scene->train(60);
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
  }
  check_same_curve(without.out, with.out);
  check_same_weights(checkpoints(without.out).back(), checkpoints(with.out).back());
  const std::string noted = "; progress thread on " + processor;
  CHECK(read_file(with.out / "run.json").find(noted) != std::string::npos);
  CHECK(read_file(without.out / "run.json").find("progress thread on") == std::string::npos);

  Scene fails = two_parts(processor + "," + processor);
  fails.data = workshop().fresh("nothing");
  check_failure(fails.train(60), 1, {"nothing"});
}

TEST_CASE("a progress thread without a processor is refused") {
  const auto refused = [](const std::string& progress, int exit_code,
                          const std::vector<std::string>& named) {
    check_failure(two_parts(progress).train(60), exit_code, named);
  };
  refused("somewhere", 2, {"'somewhere' is neither off nor auto nor a list"});
  refused("0,1,2", 2, {"3 processors for 2 ranks"});
  refused("1000,1000", 1, {"may not run on processor 1000"});
}

}  // namespace halomesh::test
