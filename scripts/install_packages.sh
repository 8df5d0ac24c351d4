#!/bin/sh
# Installs the Debian packages named as arguments, but only those that are missing. As root or
# through sudo; else prints the line to run and exits with 2.
set -eu

if ! command -v dpkg-query >/dev/null; then
  exit 0  # not Debian: cmake and the compiler name what they miss
fi
missing=
for package in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
else
  echo "Some packages are missing, and installing them takes root. Run this, then try again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 2
fi
echo "Installing$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # a list of names
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
