// SPDX-License-Identifier: Apache-2.0
// Which score is better, and when a target is reached.
#include "score.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace halomesh {

TEST_CASE("an MAE is to be low, a Dice coefficient and an IoU are to be high") {
  CHECK(is_better(Score::kMae, 0.1, 0.2));
  CHECK_FALSE(is_better(Score::kMae, 0.2, 0.1));
  CHECK(reaches(Score::kMae, 0.1, 0.1));
  CHECK_FALSE(reaches(Score::kMae, 0.11, 0.1));
  for (const Score score : {Score::kDice, Score::kIou, Score::kAccuracy}) {
    CHECK(is_better(score, 0.2, 0.1));
    CHECK_FALSE(is_better(score, 0.1, 0.2));
    CHECK(reaches(score, 0.8, 0.8));
    CHECK_FALSE(reaches(score, 0.79, 0.8));
  }
  for (const Score score : kScores) {
    CHECK(is_better(score, 0.5, std::nan("")));
    CHECK_FALSE(is_better(score, std::nan(""), 0.5));
    CHECK_FALSE(reaches(score, std::nan(""), 0.5));
    CHECK_FALSE(reaches(score, 0.5, 0));  // no target
  }
  CHECK(std::string(key_of(Score::kIou)) == "iou");
  CHECK(std::string(title_of(Score::kDice)) == "Dice");
  CHECK(std::string(key_of(Score::kAccuracy)) == "accuracy");
}

TEST_CASE("overlaps of a class") {
  const ClassQuality quality = class_quality(2, 3 + 5);
  CHECK(quality.iou == 2.0 / 6);
  CHECK(quality.dice == 4.0 / 8);
  CHECK(class_quality(0, 0).iou == 1);  // neither there nor predicted
  CHECK(class_quality(0, 0).dice == 1);
  CHECK(class_quality(0, 1).dice == 0);
}

}  // namespace halomesh
