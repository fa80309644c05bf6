#!/bin/sh
# Makes .venv ready for `make`: finds a Python, creates the environment, installs this checkout.
# usage: sh ops/setup.sh demo|dev
# Does nothing when .venv already holds at least what is asked for, made from this pyproject.toml
# in this place. Everything it says goes to stderr: the stdout of `make demo` is one JSON document.
set -eu
exec 1>&2
cd "$(dirname "$0")/.."

want=${1:-dev}
case $want in
  demo) extra=embedded ;;
  dev) extra=dev ;;
  *) echo "setup: unknown set '$want' (demo or dev)"; exit 2 ;;
esac
stamp=.venv/fleet-dispatch.stamp

# A candidate counts only if it runs: version switchers put names on PATH that refuse to.
is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  for name in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3 python; do
    if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
}

# The stamp names the set, the recipe and the place: an editable install points at its folder, so a
# moved or copied checkout is installed again.
recipe=$(cksum <pyproject.toml)
here=$(pwd -P)
had="" had_recipe="" had_here=""
if [ -f "$stamp" ] && is_new_enough .venv/bin/python; then
  { IFS= read -r had && IFS= read -r had_recipe && IFS= read -r had_here; } <"$stamp" || had=""
fi
[ "$had_here" = "$here" ] || had=""
# A set is never taken back: what holds `dev` stays good for `demo`.
if [ "$had" = dev ]; then want=dev extra=dev; fi
if [ "$had" = "$want" ] && [ "$had_recipe" = "$recipe" ]; then exit 0; fi

python=$(find_python)
if [ -z "$python" ]; then
  found=$(python3 --version 2>/dev/null || echo "no python3 at all")
  echo "setup: Python 3.11 or newer is needed; found: $found."
  echo "setup: install one (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11 ..."
  exit 2
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  echo "setup: $python cannot create virtual environments (its venv or ensurepip module is missing)."
  echo "setup: Debian and Ubuntu package it apart: apt-get install python3-venv"
  exit 2
fi

echo "setup: $("$python" --version) at $python -> .venv, set '$want' (a minute or two, once)"
rm -f "$stamp"
# Without a stamp there may be half an environment, or one of another place: begin anew.
[ -n "$had" ] || "$python" -m venv --clear .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extra]"
printf '%s\n%s\n%s\n' "$want" "$recipe" "$here" >"$stamp"
echo "setup: ready"
