# Sourced by the other scripts: makes .venv with rccltune in it, or brings it up to date.
# Works where the system's Python refuses pip, because everything lands in the environment.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${RCCLTUNE_VENV:-$root/.venv}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "rccltune needs Python 3.10 or newer; set PYTHON to one." >&2
    return 1
}

# ensure_venv EXTRAS [GROUP]: installs once per state of the files that decide what is installed.
ensure_venv() {
    local extras=$1 group=${2:-} stamp
    # The editable install names each Python file, so a new or moved one needs another install.
    stamp=$({
        cd "$root" && cat pyproject.toml rccltune/model/version.py \
            $(find native_plugin -name '*.[ch]' -o -name '*.txt' -o -name '*.map' | LC_ALL=C sort)
        find rccltune -name '*.py' | LC_ALL=C sort
    } | sha256sum | cut -c1-16)
    # What was asked for before is asked for again, so that scripts do not undo each other.
    extras=$(printf '%s\n' ${extras//,/ } $(cat "$venv/rccltune-extras" 2>/dev/null || true) | sort -u | paste -sd,)
    group=${group:-$(cat "$venv/rccltune-group" 2>/dev/null || true)}
    if [ "$(cat "$venv/rccltune-stamp" 2>/dev/null)" = "$stamp-$extras-$group" ]; then
        return
    fi
    if [ ! -x "$venv/bin/python" ]; then
        "$(find_python)" -m venv "$venv" || {
            echo "python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2
            return 1
        }
    fi
    echo "Installing rccltune into ${venv#"$root"/}, about a minute; the plugin is compiled here …" >&2
    # Errors are shown; warnings would be of this machine's package indexes. Groups need pip 25.1.
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check -U 'pip>=25.1' >&2 || return
    # Python compiles what is imported, which is a tenth of what pip would compile.
    # The group is two words or none.
    # shellcheck disable=SC2086
    "$venv/bin/python" -m pip install -qq --no-compile --disable-pip-version-check \
        -e "$root${extras:+[$extras]}" ${group:+--group $group} >&2 || return
    echo "$extras" | tr , '\n' >"$venv/rccltune-extras"
    echo "$group" >"$venv/rccltune-group"
    echo "$stamp-$extras-$group" >"$venv/rccltune-stamp"
    echo "Installed. The first command takes some 10 s longer, while Python compiles." >&2
}
