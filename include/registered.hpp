// SPDX-License-Identifier: Apache-2.0
// Lists to which source files add entries by themselves, so that adding an entry takes one file.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace halomesh {

/// An entry of the list of all T, which have a `name`: an object at namespace scope of the file
/// that defines it.
///
///     const Registered<Network> kRegistered(unet3d);  // Network unet3d();
///
/// Before main() it only joins a list whose head is a constant; `make` is called when the list is
/// read. It therefore depends on no object of another file, and the order of linking does not
/// matter. The linker must be given the object file itself, since it leaves out members of an
/// archive that nothing refers to.
template <class T>
class Registered {
 public:
  using Make = T (*)();

  explicit Registered(Make make) noexcept : make_(make), next_(first) { first = this; }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    Registered** link = &first;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
  }

  /// All entries, ordered by name. Throws std::logic_error where two have one name.
  static std::vector<T> all() {
    std::vector<T> made;
    for (const Registered* entry = first; entry != nullptr; entry = entry->next_)
      made.push_back(entry->make_());
    const auto before = [](const T& a, const T& b) { return a.name < b.name; };
    std::sort(made.begin(), made.end(), before);
    for (std::size_t i = 1; i < made.size(); ++i)
      if (!before(made[i - 1], made[i]))
        throw std::logic_error("two are registered as " + std::string(made[i].name));
    return made;
  }

 private:
  Make make_;
  Registered* next_;
  inline static constinit Registered* first = nullptr;
};

}  // namespace halomesh
