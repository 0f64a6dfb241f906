// SPDX-License-Identifier: Apache-2.0
// Pieces of SVG and HTML text: escaping, ids, pixels, and how wide a text will be.
#pragma once

#include <string>
#include <string_view>

namespace halomesh {

/// `text` as character data or as the value of a quoted attribute. Bytes that are not UTF-8 and
/// control characters become U+FFFD, so that the result is well-formed whatever `text` holds.
std::string escaped(std::string_view text);

/// `text` as an id: letters, digits, '-' and '_', anything else '-'; begins with a letter.
std::string anchor(std::string_view text);

/// A length in pixels to a tenth, without trailing zeros: "12", "0.5".
std::string px(double length);

/// An upper estimate in pixels of the width of `text` in a sans-serif font of `font_px`.
double text_width(std::string_view text, double font_px = 13);

/// `text`, cut with an ellipsis to at most `characters`.
std::string shortened(std::string_view text, std::size_t characters);

}  // namespace halomesh
