// SPDX-License-Identifier: Apache-2.0
// The kind of values: see values_of_data.hpp.
#include "src/apps/train/values_of_data.hpp"

#include <string>

#include "error.hpp"
#include "runtime/data/open_dataset.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/source_options.hpp"

namespace halomesh {

Options with_values_of_data(const Comm& world, Options options) {
  const Network& network = *network_spec(options).network;
  if (network.option(kValuesOption) == nullptr || options.is_given(kValuesOption)) return options;
  try {
    const DataType type = type_of_samples(world, source_of(options), "train");
    options.replace(kValuesOption, type == DataType::kInt16 ? "counts" : "fields");
  } catch (const Error&) {
    return options;  // opening the data says so again, after the options have been checked
  }
  return options;
}

}  // namespace halomesh
