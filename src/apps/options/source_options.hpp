// SPDX-License-Identifier: Apache-2.0
// The options --inputs and --targets-from: where a data set has samples and targets.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/data/data_source.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares the options for commands that read samples.
void add_source_options(Options& options);

/// The option of training and of conversion for the share of validation.
inline constexpr const char* kShareOption = "split";
void add_share_option(Options& options);

/// Says why --split divides no data: "has validation/" or "holds an archive"; empty: it does.
std::string own_splits(const std::filesystem::path& directory);

/// Sets the share of validation. Throws UsageError where the data are divided already.
void set_share(DataSource& source, double share);

/// The data set that the option `directory` names, with these options.
DataSource source_of(const Options& options, const std::string& directory = "data");

}  // namespace halomesh
