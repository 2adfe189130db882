#!/usr/bin/env bash
# Lint, types and tests on every Python that lcpinn supports, with the oldest and the newest JAX
# that pyproject.toml and that Python allow. One table at the end; non-zero if anything failed.
#
#   tools/versions.sh                             everything
#   tools/versions.sh tests/test_explorer.py -x   arguments go to pytest
#   PYTHONS="3.13" JAX="newest" tools/versions.sh one of them
#
# Environments and logs are kept in .cache/versions, and made anew when pyproject.toml changes.
set -u
cd "$(dirname "$0")/.."
pythons=${PYTHONS:-3.11 3.12 3.13}
jaxes=${JAX:-oldest newest}
home=.cache/versions
arguments=("$@")
[ $# -gt 0 ] || arguments=(-n auto --maxprocesses 4 --dist loadfile)
lowest=$(sed -n 's/^ *"jax>=\([0-9.]*\)".*/\1/p' pyproject.toml)
mkdir -p "$home"

# The interpreter of a version: on the PATH, or among pyenv's.
interpreter() {
  local candidate
  for candidate in "$(command -v "python$1")" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if [ -x "$candidate" ] && "$candidate" -c "import sys, venv
sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# An environment with lcpinn and its development tools; JAX as asked for.
install() {
  local python=$1 where=$2 jax=$3 requirement=()
  [ "$where/.installed" -nt pyproject.toml ] && return
  [ "$jax" = oldest ] && requirement=("jax==$lowest")
  rm -rf "$where"
  "$python" -m venv "$where" &&
    "$where/bin/python" -m pip install --quiet --disable-pip-version-check \
      -e '.[dev]' "${requirement[@]}" && touch "$where/.installed"
}

# Run a check into a log; "pass" or "FAIL".
check() {
  local log=$1
  shift
  if "$@" >"$log" 2>&1; then echo pass; else echo "FAIL ($log)"; fi
}

rows=()
failed=0
for version in $pythons; do
  if ! python=$(interpreter "$version"); then
    echo "Python $version is not on this machine: skipped" >&2
    rows+=("$version|-|skipped: no python$version on the PATH or in pyenv||")
    continue
  fi
  for jax in $jaxes; do
    where=$home/$version-$jax
    echo "Python $version, $jax JAX: $where" >&2
    if ! install "$python" "$where" "$jax" >"$where.install.log" 2>&1; then
      rows+=("$version|$jax|FAIL ($where.install.log)||")
      failed=1
      continue
    fi
    number=$("$where/bin/python" -c 'import jax; print(jax.__version__)')
    lint=$(check "$where.lint.log" "$where/bin/ruff" check .)
    types=$(check "$where.types.log" "$where/bin/basedpyright" --pythonpath "$where/bin/python")
    tests=$(check "$where.tests.log" "$where/bin/python" -m pytest "${arguments[@]}")
    case "$lint$types$tests" in *FAIL*) failed=1 ;; esac
    rows+=("$version|$number ($jax)|$lint|$types|$tests")
  done
done

echo
{
  echo "Python|JAX|lint|types|tests"
  printf '%s\n' "${rows[@]}"
} | column -t -s '|'
exit $failed
