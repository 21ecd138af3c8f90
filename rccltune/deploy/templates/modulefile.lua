{{ header('--') }}
whatis({{ whatis | lua }})
help({{ help | lua }})
conflict("rccltune")
local version, plugin = {{ version | lua }}, {{ plugin | lua }}
local here = {{ folder | lua }}
local base = myFileName():match("^(.*)/modulefiles/[^/]*$") or ""
for _, try in ipairs({base, base .. "/versions/" .. version}) do
    if isFile(try .. "/" .. plugin) and isFile(try .. "/MANIFEST") then here = try end
end
local ours = here:match("^(.*/versions/)[^/]*$") or here .. "/"
local names = {}
local function get(name) return os.getenv(name) or "" end
local function set(name, value)
    local old = get(name)
    if old == value then return true end
    if old ~= "" and old:sub(1, #ours) ~= ours then
        LmodMessage("rccltune: " .. name .. " is set to '" .. old .. "' and stays so; the rules in "
            .. here .. " were made for '" .. value .. "'")
        return false
    end
    setenv(name, value)
    setenv("__RCCLTUNE_MODULE_" .. name, value)
    names[#names + 1] = name
    return true
end
if mode() == "unload" then
    -- Here setenv unsets.
    for name in get("__RCCLTUNE_MODULE"):gmatch("[^:]+") do
        local value = get("__RCCLTUNE_MODULE_" .. name)
        setenv("__RCCLTUNE_MODULE_" .. name, value)
        if get(name) == value then setenv(name, value) end
    end
    setenv("__RCCLTUNE_MODULE", "")
else
{% if said %}
if mode() == "load" then LmodMessage({{ said | lua }}) end
{% endif %}
if set("NCCL_TUNER_PLUGIN", here .. "/" .. plugin) then
    local other = get({{ other_variable | lua }})
    if other:sub(1, #ours) == ours then unsetenv({{ other_variable | lua }}); other = '' end
    if other ~= '' then
        LmodMessage("rccltune: {{ other_variable }} is set and stays so: the rules are those")
    elseif set({{ rules_variable | lua }}, here{% if not by_folder %} .. {{ ('/' ~ rules_name) | lua }}{% endif %}) then
{% for name, value in environment %}
        set({{ name | lua }}, {{ value | lua }})
{% endfor %}
    end
end
if #names > 0 then setenv("__RCCLTUNE_MODULE", table.concat(names, ":")) end
end
