// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/page_assets.hpp"

namespace halomesh {

// Each included file is one raw string, written by the Makefile.
const char* figure_style() {
  return
#include "src/apps/report/figure.css.inc"
      ;
}

const char* page_style() {
  return
#include "src/apps/report/page.css.inc"
      ;
}

const char* page_script() {
  return
#include "src/apps/report/page.js.inc"
      ;
}

}  // namespace halomesh
