# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that show what they run on the machine at hand: run COMMAND... prints it first.

# More ranks than cores are fine here; root is common in containers.
export OMPI_MCA_rmaps_base_oversubscribe=1
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

run() {
  echo
  echo "$ $*"
  "$@"
}
