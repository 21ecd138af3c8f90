"""Module files for Environment Modules (Tcl) and Lmod (Lua): env.sh's policy in their words."""

from __future__ import annotations

from typing import Final

from rccltune.deploy.records import Delivery
from rccltune.deploy.words import header, lua, remark, tcl

_TCL: Final = """
if {[info exists ModulesCurrentModulefile]} {
    # The version that "current" means now, not the link: all ranks must read the same rules.
    set found [file dirname [file dirname [file normalize $ModulesCurrentModulefile]]]
    if {[file readable $found/$plugin]} { set here $found }
}
proc rccltune_set {name value} {
    global env here
    set ours $here/
    if {[file tail [file dirname $here]] eq {versions}} { set ours [file dirname $here]/ }
    if {![info exists env($name)] || $env($name) eq {} || $env($name) eq $value
        || [string first $ours $env($name)] == 0} {
        setenv $name $value
        return 1
    }
    if {![module-info mode remove]} {
        puts stderr "rccltune: $name is set to '$env($name)' and stays so;\\
            the rules in $here were made for '$value'"
    }
    return 0
}
"""
_LUA: Final = """
local base = myFileName():match("^(.*)/modulefiles/[^/]*$") or ""
for _, try in ipairs({base .. "/versions/" .. version, base}) do
    if not isFile(here .. "/" .. plugin) and isFile(try .. "/" .. plugin) then here = try end
end
local ours = here:match("^(.*/versions/)[^/]*$") or here .. "/"
local function set(name, value)
    local old = os.getenv(name) or ""
    if old == "" or old == value or old:sub(1, #ours) == ours then
        setenv(name, value)
        return true
    end
    if mode() == "load" then
        LmodMessage("rccltune: " .. name .. " is set to '" .. old .. "' and stays so; the rules in "
            .. here .. " were made for '" .. value .. "'")
    end
    return false
end
"""


def tcl_module(delivery: Delivery, version: str) -> str:
    """``modulefiles/rccltune``."""
    here = f"{delivery.directory}/versions/{version}"
    rules = "$here" if delivery.by_folder else f"$here/{delivery.rules[0].name}"
    other = _other(delivery)
    lines = [
        "#%Module1.0",
        *header(delivery, version),
        f"module-whatis {tcl(_whatis(delivery, version))}",
        "conflict rccltune",
        f"set plugin {delivery.library.name}",
        f"set here {tcl(here)}",
    ]
    ends = [
        *([f"if {{[module-info mode load]}} {{ puts stderr {tcl(_said(delivery))} }}"])
        * bool(_said(delivery)),
        'if {[rccltune_set NCCL_TUNER_PLUGIN "$here/$plugin"]} {',
        f"    if {{[info exists env({other})] && $env({other}) ne {{}}}} {{",
        f'        puts stderr "rccltune: {other} is set and stays so: the rules are those"',
        f'    }} elseif {{[rccltune_set {delivery.rules_variable} "{rules}"]}} {{',
        *(f"        rccltune_set {name} {tcl(value)}" for name, value in delivery.environment),
        "    }",
        "}",
    ]
    return "\n".join(lines) + _TCL + "\n".join(ends) + "\n"


def lua_module(delivery: Delivery, version: str) -> str:
    """``modulefiles/rccltune.lua``, which Lmod takes before the other."""
    here = f"{delivery.directory}/versions/{version}"
    rules = "here" if delivery.by_folder else f"here .. {lua('/' + delivery.rules[0].name)}"
    other = _other(delivery)
    lines = [
        *header(delivery, version, "--"),
        f"whatis({lua(_whatis(delivery, version))})",
        'conflict("rccltune")',
        f"local version, plugin = {lua(version)}, {lua(delivery.library.name)}",
        f"local here = {lua(here)}",
    ]
    ends = [
        *([f'if mode() == "load" then LmodMessage({lua(_said(delivery))}) end'])
        * bool(_said(delivery)),
        'if set("NCCL_TUNER_PLUGIN", here .. "/" .. plugin) then',
        f"    if (os.getenv({lua(other)}) or '') ~= '' then",
        f'        LmodMessage("rccltune: {other} is set and stays so: the rules are those")',
        f"    elseif set({lua(delivery.rules_variable)}, {rules}) then",
        *(f"        set({lua(name)}, {lua(value)})" for name, value in delivery.environment),
        "    end",
        "end",
    ]
    return "\n".join(lines) + _LUA + "\n".join(ends) + "\n"


def _other(delivery: Delivery) -> str:
    return "NCCL_TUNER_CONFIG_FILE" if delivery.by_folder else "RCCLTUNE_CONFIG_DIR"


def _whatis(delivery: Delivery, version: str) -> str:
    noted = f" ({remark(delivery)})" if remark(delivery) else ""
    return f"Tuned settings for RCCL and NCCL collectives, version {version}{noted}"


def _said(delivery: Delivery) -> str:
    """What loading says: nothing where rules hold for every job and are real."""
    said = [f"rccltune: {remark(delivery)}"] if delivery.simulated else []
    if delivery.placements:
        name = delivery.placements[0]
        said.append(f"rccltune: set RCCLTUNE_PLACEMENT={name} where a job's ranks lie so")
    return "; ".join(said)
