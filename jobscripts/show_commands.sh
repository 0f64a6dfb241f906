# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that show the commands they run: run COMMAND... prints it first.

# These settings leave out the banner of Open MPI after an error that the program has explained, and
# allow more ranks than cores, and root, which is common in containers.
export OMPI_MCA_orte_execute_quiet=1
export OMPI_MCA_rmaps_base_oversubscribe=1
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

run() {
  echo
  echo "$ $*"
  "$@"
}
