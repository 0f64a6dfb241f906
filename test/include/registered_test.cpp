// SPDX-License-Identifier: Apache-2.0
#include "registered.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace halomesh {
namespace {

struct Fruit {
  std::string name;
};
Fruit pear() { return {"pear"}; }
Fruit apple() { return {"apple"}; }
Fruit quince() { return {"quince"}; }

const Registered<Fruit> kPear(pear);
const Registered<Fruit> kApple(apple);

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const Fruit& fruit : Registered<Fruit>::all()) found.push_back(fruit.name);
  return found;
}

}  // namespace

TEST_CASE("what files register is listed by name") {
  CHECK(names() == std::vector<std::string>{"apple", "pear"});
  {
    const Registered<Fruit> first(quince);
    CHECK(names() == std::vector<std::string>{"apple", "pear", "quince"});
    const Registered<Fruit> second(quince);
    CHECK_THROWS_WITH_AS(names(), "two are registered as quince", std::logic_error);
  }
  CHECK(names() == std::vector<std::string>{"apple", "pear"});
}

}  // namespace halomesh
