-- The world that scripts see, made of Lua's own libraries and of the functions in `native`.
--
-- Invariants: every table that two scripts can reach is sealed before the first one runs, so nothing
-- that a script changes outlives it; every function that catches errors lets a stop through, and
-- turns what Rust raised into what a script may see (those are in `native`).
local native = ...

local error, pairs, tostring, setmetatable, getmetatable, xpcall =
    error, pairs, tostring, setmetatable, getmetatable, xpcall
local seal, on_error = native.seal, native.on_error

local function copy(from, into)
    for key, value in pairs(from) do
        into[key] = value
    end
    return into
end

-- Libraries.

local coroutines = copy(coroutine, {})
coroutines.resume, coroutines.wrap = native.resume, native.wrap

local shared = {
    bit = native.bit,
    cjson = native.cjson,
    cmsgpack = native.cmsgpack,
    coroutine = coroutines,
    math = copy(native.math, copy(math, {})),
    os = { clock = os.clock },
    string = copy(string, {}),
    struct = native.struct,
    table = copy(table, {}),
}
for _, library in pairs(shared) do
    seal(library)
end
seal(native.json_arrays)

local texts = getmetatable("")
texts.__index = shared.string
seal(texts)

-- The functions without a library.

local base = {
    collectgarbage = native.collectgarbage, pcall = native.pcall, xpcall = native.xpcall,
    _VERSION = _VERSION,
}
local harmless = {
    "assert", "error", "gcinfo", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget",
    "rawset", "select", "setmetatable", "tonumber", "tostring", "type", "unpack",
}
for _, name in pairs(harmless) do
    base[name] = _G[name]
end

-- The worlds.

local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local strict = seal({ __index = missing })

-- A world with its own `redis`.
local function world(api)
    local globals = copy(shared, copy(base, {}))
    globals._G = globals
    globals.redis = seal(api)
    globals.server = globals.redis
    globals.load = native.load(globals)
    globals.loadstring = native.loadstring(globals)
    return setmetatable(globals, strict)
end

local scripts = world(native.script_api)
-- Each run puts its own there, for which the table must not have to grow.
scripts.KEYS, scripts.ARGV = {}, {}
seal(scripts)

local library_globals = seal(world(native.library_api))

-- All that a library sees while it is loaded.
local loading_api = seal(setmetatable(native.loading_api, strict))
local loading_globals =
    seal(setmetatable({ redis = loading_api, server = loading_api }, strict))

-- What libraries are compiled with shows the one or the other.
local shown = { __index = library_globals }
local libraries = seal(setmetatable({}, seal(shown)))

local function show(globals)
    seal(shown, false)
    shown.__index = globals
    seal(shown)
end

-- The way in for a library. Scripts and functions are entered from outside.
local function run_loading(body)
    show(loading_globals)
    local fine, value = xpcall(body, on_error)
    show(library_globals)
    return fine, value
end

return scripts, libraries, run_loading
