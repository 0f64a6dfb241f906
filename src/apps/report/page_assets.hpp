// SPDX-License-Identifier: Apache-2.0
// The style sheets and the script of a report: files of their own beside this one, compiled in.
#pragma once

namespace halomesh {

const char* figure_style();  ///< figure.css: for SVG, alone and in a page
const char* page_style();    ///< page.css
const char* page_script();   ///< page.js

}  // namespace halomesh
