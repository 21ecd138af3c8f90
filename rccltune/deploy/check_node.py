"""The parts of check.sh that look at a node: the deployed files, its libraries, its GPUs."""

from __future__ import annotations

from typing import Final

FILES: Final = r"""
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
"""
LIBRARY: Final = r"""
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
"""
GPUS: Final = r"""
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
"""
