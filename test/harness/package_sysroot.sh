#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian packages of another architecture or release, with all their dependencies, into a
# directory of their own. Needs no root and changes no packages of this machine.
# Usage: package_sysroot.sh DIR ARCHITECTURE RELEASE PACKAGE...
# Does nothing if DIR already has exactly these. DEBIAN_MIRROR names another mirror.
set -eu

if [ $# -lt 4 ]; then
  echo "usage: package_sysroot.sh DIR ARCHITECTURE RELEASE PACKAGE..." >&2
  exit 2
fi
root=$1 architecture=$2 release=$3
shift 3
wanted="$architecture $release $*"
if [ "$(cat "$root/.packages" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

fail() {
  echo "package_sysroot.sh: $1" >&2
  echo "hint: $2" >&2
  exit 1
}
for tool in apt-get dpkg; do
  command -v "$tool" >/dev/null 2>&1 ||
    fail "no $tool here" "make $root on a Debian machine and copy it to this place"
done

work=$root.new
rm -rf "$work"
mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/root"
work=$(cd "$work" && pwd)
trap 'rm -rf "$work"' EXIT
: >"$work/apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $release main" \
  >"$work/apt/sources.list"

apt() {
  apt-get -q -y -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
    -o APT::Sandbox::User=root -o APT::Install-Recommends=false \
    -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$work/apt" -o Dir::State::status="$work/apt/status" \
    -o Dir::Cache="$work/apt/cache" -o Acquire::Retries=2 "$@" >>"$work/apt/log" 2>&1
}
echo "Fetching $architecture packages of $release into $root"
if ! { apt update -o APT::Update::Error-Mode=any && apt --download-only install "$@"; }; then
  tail -n 5 "$work/apt/log" >&2
  fail "cannot fetch $*" "give this machine a way to the mirror (DEBIAN_MIRROR names another one)"
fi
for package in "$work"/apt/cache/archives/*.deb; do dpkg -x "$package" "$work/root"; done

# Links that start at / would lead to this machine's files.
find "$work/root" -lname '/*' | while read -r link; do
  ln -srfn "$work/root$(readlink "$link")" "$link"
done
echo "$wanted" >"$work/root/.packages"
rm -rf "$root"
mv "$work/root" "$root"
