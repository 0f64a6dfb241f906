// SPDX-License-Identifier: Apache-2.0
// A training run whose ranks are killed at random moments, again and again, until it ends.
#pragma once

#include <random>

#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {

/// When a rank is killed.
struct Moment {
  bool at_start = false;  ///< after this job has recorded itself; else after its first step
  double after_s = 0;
};

/// Starts the training run of `scene` and kills one rank; returns the launcher's output. The moment
/// may lie in staging, a step, a validation or a checkpoint. Not earlier: where ranks are still
/// connecting to each other, Open MPI 4.1.4's mpirun may never end the others ("PMIX ERROR:
/// UNREACHABLE").
inline Outcome kill_one(const Scene& scene, int rank, const Moment& moment) {
  const fs::path watched = scene.out / (moment.at_start ? "run.json" : "metrics.jsonl");
  const std::string before = read_file(watched);
  Job job(scene.ranks, "train", scene.arguments(), workshop().fresh("log"));
  const bool there = wait_until(kLimitSeconds, [&] {
    if (job.ended()) return true;
    const std::string now = read_file(watched);
    return !now.empty() && now != before && !before.starts_with(now);
  });
  REQUIRE(there);
  std::this_thread::sleep_for(std::chrono::duration<double>(moment.after_s));
  const auto ranks = job.ranks();
  if (ranks.contains(rank)) job.signal(ranks.at(rank), SIGKILL);
  return job.wait(kLimitSeconds);
}

/// Runs one training to its end although a random rank is killed at each of `kills` random moments,
/// and asserts that weights, momenta and curve are those of an uninterrupted run on this mesh.
inline void check_random_kills(int kills, unsigned seed, const Arguments& more = {}) {
  Scene whole, broken;
  for (Scene* scene : {&whole, &broken}) {
    scene->options["epochs"] = "0";
    scene->options["steps"] = std::to_string(60 * kills);
    scene->options["checkpoint-every"] = "5";
    scene->options["evaluate-every"] = "3";
    for (const auto& [name, value] : more) scene->options[name] = value;
  }
  const Outcome reference = whole.train(120);
  CHECK_MESSAGE(reference.exit_code == 0, reference.text);

  MESSAGE("seed of the moments: " << seed);
  std::mt19937 random(seed);
  int killed = 0, in_training = 0;
  for (int i = 0; i < kills; ++i) {
    const int rank = static_cast<int>(random() % 4);
    const Moment moment{i % 4 == 3, 0.001 * static_cast<double>(random() % 200)};
    const Outcome outcome = kill_one(broken, rank, moment);
    CAPTURE(outcome.text);
    CHECK(outcome.in_time);
    killed += outcome.exit_code != 0 ? 1 : 0;
    in_training += outcome.text.find("steps per epoch") != std::string::npos ? 1 : 0;
  }
  MESSAGE(killed << " of " << kills << " runs were killed, " << in_training << " while training");
  CHECK(killed >= kills / 2);
  CHECK(in_training >= kills / 2);
  const Outcome last = broken.train(120);
  CAPTURE(last.text);
  REQUIRE(last.exit_code == 0);
  CHECK(partial_files(broken.out).empty());
  check_same_curve(whole.out, broken.out);
  CHECK(checkpoints(whole.out).back().filename() == checkpoints(broken.out).back().filename());
  check_same_weights(checkpoints(whole.out).back(), checkpoints(broken.out).back());
}

}  // namespace halomesh::test
