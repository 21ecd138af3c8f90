#!/bin/sh
{{ header('#') }}
# Is this node ready for a job with these rules? One line for each finding; exit code 0
# or 1. On every node: srun --ntasks-per-node=1 -N NODES {{ directory }}/check.sh
# In a job, after env.sh, with --sourced: then its variables must be there.
set -u
version={{ version }}
written={{ directory | sh }}
plugin={{ plugin | sh }}
abis={{ abi_versions | join(' ') | sh }}
glibc={{ glibc | join('.') | sh }}
arch={{ arch | sh }}
device={{ device | sh }}
compute={{ compute | sh }}
memory={{ memory | sh }}
mode={{ mode | sh }}
expected={{ expected | join(' ') | sh }}
passes='Slurm: unset SLURM_EXPORT_ENV, or srun --export=ALL; containers: container.sh'
needed={{ environment | map('first') | join(' ') | sh }}
remark={{ remark | sh }}
wanted() {
    want=''
    case $1 in
{% for name, value in environment %}
    {{ name }}) want={{ value | sh }} ;;
{% endfor %}
    esac
}
# zsh, where somebody names it, splits no words without this.
[ -z "${ZSH_VERSION:-}" ] || emulate sh
root='' quiet=0 sourced=0
while [ $# -gt 0 ]; do
    case $1 in
    --root) root=${2:?--root names a folder}; shift ;;
    -q) quiet=1 ;;
    --sourced) sourced=1 ;;
    *)
        echo "usage: check.sh [-q] [--sourced] [--root DIR]" >&2
        echo "Is this node ready? Exit code 0 or 1." >&2
        exit 2
        ;;
    esac
    shift
done
host=$(uname -n)
bad=0
say() { printf '%s: %s\n' "$host" "$1"; }
fail() { bad=1; say "FAIL: $1"; }
warn() { [ "$quiet" = 1 ] || say "warning: $1"; }

# Slurm may run a copy of this file from elsewhere.
case $0 in
*/*) at=${0%/*}/ ;;
*) at=. ;;
esac
at=$(CDPATH='' cd "$at" 2>/dev/null && pwd) || at=''
here=$written/versions/$version
for try in "$at/versions/$version" "${at%/*}/$version" "${at%/*}/versions/$version" "$at"; do
    if [ -e "$try/MANIFEST" ]; then here=$try; break; fi
done
check_files() {
    if [ ! -r "$here/MANIFEST" ]; then
        fail "$here/MANIFEST cannot be read"
        return
    fi
    if ! command -v sha256sum >/dev/null 2>&1; then
        fail "there is no sha256sum here, so no file could be checked"
        return
    fi
    listed=' '
    while read -r hash name; do
        case $hash in '#'* | '') continue ;; esac
        listed="$listed$name "
        if [ ! -r "$here/$name" ]; then
            fail "$name is missing or cannot be read"
            continue
        fi
        found=$(sha256sum <"$here/$name" 2>/dev/null) || found='none'
        found=${found%% *}
        [ "$found" = "$hash" ] || fail "$name is not the file that was deployed (sha256 $found)"
    done <"$here/MANIFEST"
    for name in $expected; do
        case $listed in *" $name "*) ;; *) fail "MANIFEST does not list $name" ;; esac
    done
    for name in "$here"/*.csv; do
        [ -e "$name" ] || continue
        case $listed in *" ${name##*/} "*) ;; *) fail "${name##*/} was not deployed" ;; esac
    done
}
# Who can write here decides what every job loads, also after this check.
check_rights() {
    command -v find >/dev/null 2>&1 || return 0
    above=${here%/versions/"$version"}
    open=$({
        find "$above" "$above/versions" -prune -type d -perm -0002
        find "$here" ! -type l -perm -0002
    } 2>/dev/null)
    # The first line.
    open=${open%%
*}
    [ -z "$open" ] || warn "anybody may write to $open, and with it to what jobs load"
}
check_library() {
    [ -r "$here/$plugin" ] || return 0
    if command -v ldd >/dev/null 2>&1; then
        said=$(LC_ALL=C ldd "$here/$plugin" 2>&1) && code=0 || code=$?
        case $code:$said in
        0:*'not found'* | 0:*'not a dynamic'*) code=1 ;;
        esac
        [ "$code" = 0 ] || fail "$plugin does not load: $(printf '%s' "$said" | tr '\n\t' '  ')"
    fi
    for abi in $abis; do
        if command -v readelf >/dev/null 2>&1; then
            said=$(LC_ALL=C readelf -W --dyn-syms "$here/$plugin" 2>/dev/null) || said=''
            case $said in *"ncclTunerPlugin_v$abi"*) continue ;; esac
        elif LC_ALL=C grep -q "ncclTunerPlugin_v$abi" "$here/$plugin"; then
            continue
        fi
        fail "$plugin has no symbol ncclTunerPlugin_v$abi"
    done
}
check_glibc() {
    have=$(getconf GNU_LIBC_VERSION 2>/dev/null) || have=$(ldd --version 2>/dev/null) || have=''
    have=${have%%
*}
    have=${have##* }
    case $have in
    [0-9]*.[0-9]*) ;;
    *)
        warn "the version of the C library is not known; $plugin needs glibc $glibc"
        return
        ;;
    esac
    major=${have%%.*} minor=${have#*.}
    minor=${minor%%[!0-9]*}
    if [ "$major" -lt "${glibc%.*}" ] ||
        { [ "$major" -eq "${glibc%.*}" ] && [ "$minor" -lt "${glibc#*.}" ]; }; then
        fail "glibc $have is too old: $plugin needs $glibc"
    fi
}
first_line() {
    text=''
    [ ! -r "$1" ] || read -r text <"$1" 2>/dev/null || :
}
n_gpus=0
check_gpus() {
    [ -n "$arch$compute$memory$device" ] || return 0
    unread=0
    for gpu in "$root"/sys/bus/pci/devices/*; do
        first_line "$gpu/vendor"
        [ "$text" = 0x1002 ] || continue
        first_line "$gpu/device"
        id=$text
        case $id in
        0x74[ab]?) is=gfx942 ;;
        0x75[ab]?) is=gfx950 ;;
        *)
            [ -e "$gpu/current_compute_partition" ] || continue
            is=''
            ;;
        esac
        n_gpus=$((n_gpus + 1))
        where="the GPU at ${gpu##*/}"
        if [ -n "$is" ] && [ -n "$arch" ] && [ "$is" != "$arch" ]; then
            fail "$where is $is ($id), and the rules are for $arch"
            continue
        fi
        [ -z "$device" ] || [ "$device" = "$id" ] || fail "$where is $id, and not $device"
        [ -n "$compute$memory" ] || continue
        first_line "$gpu/current_compute_partition"
        is=$text
        first_line "$gpu/current_memory_partition"
        if [ "${is:-$compute}" != "${compute:-$is}" ] ||
            [ "${text:-$memory}" != "${memory:-$text}" ]; then
            fail "$where is in ${is:-?} and ${text:-?}, and the rules are for $mode"
        elif [ -n "$compute" ] && [ -z "$is" ] || [ -n "$memory" ] && [ -z "$text" ]; then
            unread=1
        fi
    done
    if [ $n_gpus = 0 ]; then
        fail "there is no AMD GPU here that could be seen, and the rules are for ${arch:-$mode}"
    elif [ $unread = 1 ]; then
        warn "the driver does not say the GPUs' mode, so it was not checked: $mode is required"
    fi
}
# Whether a path is in this folder, by whatever name: links, and several mounts of one folder.
is_here() {
    case $1 in
    /*) ;;
    *) return 1 ;;
    esac
    folder=$1
    [ -d "$1" ] || folder=${1%/*}/
    [ "$(cd -P "$folder" 2>/dev/null && pwd -P)" = "$(cd -P "$here" && pwd -P)" ] && return
    # POSIX has no -ef, but every /bin/sh has.
    # shellcheck disable=SC3013
    [ "$folder" -ef "$here" ] 2>/dev/null
}
loaded=no
judge() {
    case $1 in
    NCCL_TUNER_PLUGIN)
        if is_here "$2" && [ "${2##*/}" = "$plugin" ]; then
            loaded=yes
        else
            loaded=other
            fail "$3: $1=$2 is not this version's plugin"
        fi
        ;;
    NCCL_TUNER_CONFIG_FILE | RCCLTUNE_CONFIG_DIR)
        is_here "$2" || fail "$3: $1=$2 are not this version's rules"
        ;;
    RCCLTUNE_MODE)
        case $2 in
        auto | "$mode") ;;
        *) [ -z "$mode" ] || fail "$3: $1=$2, and the rules are for $mode" ;;
        esac
        ;;
    RCCLTUNE_CLI_* | RCCLTUNE_DEPLOY_DIR | RCCLTUNE_LOG) ;;
    RCCLTUNE_PLACEMENT | RCCLTUNE_TRACE | RCCLTUNE_RECORD | RCCLTUNE_STRICT) ;;
    {{ environment | map('first') | join(' | ') or '-' }})
        wanted "$1"
        [ "$2" = "$want" ] || fail "$3: $1=$2, and the rules need $1=$want"
        ;;
    {{ overriding | join(' | ') }})
        fail "$3: $1=$2 overrides what the rules choose"
        ;;
    {{ choosing | join(' | ') or '-' }})
        warn "$3: $1=$2 was not set where the rules were measured"
        ;;
    esac
}
check_variables() {
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
        eval "value=\${$name-}"
        [ -z "$value" ] || judge "$name" "$value" environment
    done
    # RCCL and NCCL read the home that passwd names, whatever HOME is.
    home=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6) || home=''
    home=${home:-${HOME:-}}
    for file in "$home/.nccl.conf" "$home/.rccl.conf" /etc/nccl.conf /etc/rccl.conf \
        ${NCCL_CONF_FILE:+"$NCCL_CONF_FILE"}; do
        [ ! -r "$root$file" ] || check_hidden "$root$file"
    done
    if [ $loaded = other ]; then
        return
    elif [ $loaded = no ] && [ $sourced = 1 ]; then
        fail "NCCL_TUNER_PLUGIN does not arrive here ($passes)"
        return
    elif [ $loaded = no ]; then
        warn "NCCL_TUNER_PLUGIN is not set here: a job sources env.sh first"
        return
    fi
    for name in $needed; do
        eval "value=\${$name-}"
        wanted "$name"
        [ -n "$value" ] || fail "the rules need $name=$want, and it is not set"
    done
}
# NAME=VALUE lines take effect where the environment does not have the name.
check_hidden() {
    from=$1
    while read -r line || [ -n "$line" ]; do
        case $line in '#'*) continue ;; *=*) ;; *) continue ;; esac
        name=${line%%=*} value=${line#*=}
        name=${name%"${name##*[! ]}"} value=${value#"${value%%[! ]*}"}
        case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        eval "set_already=\${$name+yes}"
        [ -n "$set_already" ] || [ -z "$value" ] || judge "$name" "$value" "$from"
    done <"$1"
}
check_files
check_rights
check_library
check_glibc
check_gpus
check_variables
told="version $version"
[ $n_gpus = 0 ] || told="$told, $n_gpus GPUs"
[ -z "$remark" ] || warn "$remark"
if [ $bad = 1 ]; then
    say "NOT ready: $told, in $here"
else
    say "ready: $told${mode:+, rules for $mode}"
fi
exit $bad
