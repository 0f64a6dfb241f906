// SPDX-License-Identifier: Apache-2.0
// Compression into gzip members, which may be concatenated to one file.
#pragma once

#include <string>
#include <string_view>

namespace halomesh {

/// `text` as one gzip member (RFC 1952). Throws Error when zlib fails.
std::string gzip_member(std::string_view text);

}  // namespace halomesh
