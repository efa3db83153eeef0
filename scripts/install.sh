#!/usr/bin/env bash
# Installs components of a build, or removes what was installed; make's targets run it.
#
#   scripts/install.sh install PREFIX COMPONENT...    library, command, torch, roformer
#   scripts/install.sh uninstall PREFIX
#
# $BUILD is the build folder (build). $DESTDIR is put before PREFIX, as packagers expect. What was
# installed is listed in PREFIX/share/rotary/installed.txt, relative to PREFIX: files, and with a / at
# the end the folders that did not exist before. Uninstalling removes these files, and these folders if
# they are then empty; it needs no build folder.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit "${2:-1}"
}
usage='usage: scripts/install.sh install PREFIX COMPONENT... | uninstall PREFIX'

(($# >= 2)) || fail "$usage" 2
verb=$1
prefix=${2%/}
shift 2
[[ $prefix == /* ]] || fail "PREFIX must be an absolute path other than /, got '$prefix'" 2
root=${DESTDIR:-}$prefix
list=share/rotary/installed.txt

install() {
  local build=${BUILD:-build} staged component path
  staging=$(mktemp -d)
  trap 'rm -rf "$staging"' EXIT
  chmod 755 "$staging"
  for component in "$@"; do
    DESTDIR=$staging cmake --install "$build" --prefix "$prefix" --component "$component" |
      sed -n 's/^-- //; /^\(Install\|Up-to-date\|Set\)/!p'
  done
  staged=$staging$prefix
  [[ -d $staged ]] || fail "$build has nothing to install for: $*"
  mkdir -p "$staged/${list%/*}"

  local paths=("$list")
  [[ ! -f $root/$list ]] || mapfile -t -O 1 paths <"$root/$list"
  while read -r path; do
    if [[ ! -d $staged/$path || -L $staged/$path ]]; then
      paths+=("$path")
    elif [[ ! -d $root/$path ]]; then
      paths+=("$path/")
    fi
  done < <(cd "$staged" && find . -mindepth 1 -printf '%P\n')
  printf '%s\n' "${paths[@]}" | LC_ALL=C sort -u >"$staged/$list"
  mkdir -p "$root"
  cp -R --no-dereference --preserve=mode,timestamps "$staged/." "$root"
  echo "Installed in $root: $*"
}

uninstall() {
  [[ -f $root/$list ]] || fail "rotary is not installed in $root: there is no $list"
  local paths path
  mapfile -t paths < <(LC_ALL=C sort -r "$root/$list") # what is in a folder before the folder
  for path in "${paths[@]}"; do
    if [[ $path != */ ]]; then
      rm -f "$root/$path"
    elif [[ -d $root/$path ]]; then
      rmdir --ignore-fail-on-non-empty "$root/$path"
    fi
  done
  echo "Removed from $root"
}

case $verb in
  install)
    (($# >= 1)) || fail "$usage" 2
    install "$@"
    ;;
  uninstall)
    (($# == 0)) || fail "$usage" 2
    uninstall
    ;;
  *) fail "$usage" 2 ;;
esac
