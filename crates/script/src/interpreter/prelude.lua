-- The world that scripts see, made of Lua's own libraries and of the functions in `native`.
--
-- Invariants: whatever a script can reach is either made for its run or stands behind a shield, so
-- nothing that it changes outlives it; every function that catches errors lets a stop through, and
-- turns what Rust raised into what a script may see. What is called here cannot fail on arguments
-- that were looked at before, because the place of an error would be told wrongly.
local native = ...

local error, pcall, xpcall, type, select = error, pcall, xpcall, type, select
local setmetatable, getmetatable, rawset, rawget = setmetatable, getmetatable, rawset, rawget
local next, pairs, unpack, loadstring, setfenv = next, pairs, unpack, loadstring, setfenv
local collectgarbage, tostring, floor = collectgarbage, tostring, math.floor
local insert, concat, byte = table.insert, table.concat, string.byte
local create, resume = coroutine.create, coroutine.resume
local visible = native.visible

local READONLY = "Attempt to modify a readonly table"

-- What stands behind each shield.
local shielded = {}

local function refuse()
    error(READONLY, 2)
end

local function shield(content)
    local behaviour = { __index = content, __newindex = refuse, __metatable = false }
    local front = setmetatable({}, behaviour)
    shielded[front] = content
    return front, behaviour
end

local function copy(from, into)
    for key, value in pairs(from) do
        into[key] = value
    end
    return into
end

local function bad_argument(index, name, reason)
    error("bad argument #" .. index .. " to '" .. name .. "' (" .. reason .. ")", 3)
end

local function expected(index, name, kind, ...)
    local got = select("#", ...) == 0 and "no value" or type((...))
    local reason = kind .. " expected, got " .. got
    error("bad argument #" .. index .. " to '" .. name .. "' (" .. reason .. ")", 3)
end

-- Errors.

local function settle(ok, ...)
    if ok then
        return true, ...
    end
    return false, visible((...))
end

-- Redis' own `pcall` gives the text of an error table.
local function flat(ok, ...)
    if not ok and type((...)) == "table" then
        local text = rawget((...), "err")
        if type(text) == "string" or type(text) == "number" then
            return false, text
        end
    end
    return ok, ...
end

local base = {}

function base.pcall(...)
    if select("#", ...) == 0 then
        return settle(pcall(nil))
    end
    return flat(settle(pcall(...)))
end

function base.xpcall(...)
    local body, handler = ...
    if select("#", ...) < 2 then
        bad_argument(2, "xpcall", "value expected")
    end
    return settle(xpcall(body, function(problem)
        return handler(visible(problem))
    end))
end

-- Tables and what stands before them.

function base.getmetatable(...)
    if select("#", ...) == 0 then
        bad_argument(1, "getmetatable", "value expected")
    end
    if shielded[(...)] then
        return nil
    end
    return getmetatable((...))
end

function base.setmetatable(...)
    local subject, behaviour = ...
    if type(subject) ~= "table" then
        expected(1, "setmetatable", "table", ...)
    elseif select("#", ...) < 2 or behaviour ~= nil and type(behaviour) ~= "table" then
        bad_argument(2, "setmetatable", "nil or table expected")
    elseif shielded[subject] then
        error(READONLY, 0)
    end
    local present = getmetatable(subject)
    local is_open = type(present) == "table" and rawget(present, "__metatable") == nil
    if present ~= nil and not is_open then
        error("cannot change a protected metatable", 2)
    end
    return setmetatable(subject, behaviour)
end

function base.rawset(...)
    local subject, key = ...
    if type(subject) ~= "table" then
        expected(1, "rawset", "table", ...)
    elseif select("#", ...) < 3 then
        bad_argument(select("#", ...) + 1, "rawset", "value expected")
    elseif shielded[subject] then
        error(READONLY, 0)
    elseif key == nil then
        error("table index is nil", 0)
    elseif key ~= key then
        error("table index is NaN", 0)
    end
    return rawset(...)
end

function base.rawget(...)
    local subject, key = ...
    if type(subject) ~= "table" then
        expected(1, "rawget", "table", ...)
    elseif select("#", ...) < 2 then
        bad_argument(2, "rawget", "value expected")
    end
    return rawget(shielded[subject] or subject, key)
end

local function following(subject, key)
    return next(shielded[subject] or subject, key)
end

function base.next(...)
    if type((...)) ~= "table" then
        expected(1, "next", "table", ...)
    end
    return following(...)
end

function base.pairs(...)
    if type((...)) ~= "table" then
        expected(1, "pairs", "table", ...)
    end
    return next, shielded[(...)] or ..., nil
end

-- So many values at most come from one table at once: as many as Rust can take, and about as many
-- as in Redis.
local UNPACKED_MAX = 7900

function base.unpack(...)
    local list, first, last = ...
    if type(list) ~= "table" then
        expected(1, "unpack", "table", ...)
    end
    if type(first) ~= "number" then
        if first ~= nil then
            expected(2, "unpack", "number", first)
        end
        first = 1
    end
    if type(last) ~= "number" then
        if last ~= nil then
            expected(3, "unpack", "number", last)
        end
        last = #list
    end
    if not (last - first < UNPACKED_MAX) or first <= -2 ^ 31 or last >= 2 ^ 31 - 1 then
        if first > last then
            return
        end
        error("too many results to unpack", 2)
    end
    return unpack(list, first, last)
end

local tables = copy(table, {})

function tables.insert(list, ...)
    if type(list) ~= "table" then
        expected(1, "insert", "table", list)
    elseif shielded[list] then
        error(READONLY, 0)
    end
    local count = select("#", ...)
    if count ~= 1 and count ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    elseif count == 2 and type((...)) ~= "number" then
        expected(2, "insert", "number", ...)
    end
    return insert(list, ...)
end

-- Code made at run time.

-- Compiles text in a world; the collector rests meanwhile.
local function compile(text, name, world)
    if byte(text) == 27 then
        -- Compiled code could do anything: with a blank before it, it is text that is wrong.
        text = " " .. text
    end
    collectgarbage("stop")
    local chunk, problem = loadstring(text, name)
    collectgarbage("restart")
    if not chunk then
        return nil, problem
    end
    return setfenv(chunk, world)
end

local function loaders(into, world)
    function into.loadstring(...)
        local text, name = ...
        if type(text) == "number" then
            text = tostring(text)
        elseif type(text) ~= "string" then
            expected(1, "loadstring", "string", ...)
        end
        if name ~= nil and type(name) ~= "string" then
            expected(2, "loadstring", "string", name)
        end
        return compile(text, name or text, world)
    end

    function into.load(...)
        local reader, name = ...
        if type(reader) ~= "function" then
            expected(1, "load", "function", ...)
        end
        local pieces = {}
        while true do
            local fine, piece = base.pcall(reader)
            if not fine then
                return nil, piece
            elseif piece == nil or piece == "" then
                return compile(concat(pieces), name or "=(load)", world)
            elseif type(piece) ~= "string" then
                return nil, "reader function must return a string"
            end
            pieces[#pieces + 1] = piece
        end
    end
end

-- The collector serves all scripts of its thread: none may stop it.
function base.collectgarbage(option, argument)
    if option == nil or option == "collect" or option == "count" or option == "step" then
        return collectgarbage(option or "collect", argument)
    elseif option == "stop" or option == "restart" then
        return 0
    elseif option == "setpause" or option == "setstepmul" then
        return 200
    end
    error("bad argument #1 to 'collectgarbage' (invalid option '" .. tostring(option) .. "')", 2)
end

local coroutines = copy(coroutine, {})

function coroutines.resume(...)
    if type((...)) ~= "thread" then
        bad_argument(1, "resume", "coroutine expected")
    end
    return settle(resume(...))
end

-- What goes wrong within a wrapped coroutine comes out of its call, with the place of that before it
-- if it is a text. Two levels above are the function that was made and who called it.
local function passed_on(ok, ...)
    if ok then
        return ...
    end
    error(visible((...)), 3)
end

function coroutines.wrap(...)
    if type((...)) ~= "function" then
        bad_argument(1, "wrap", "Lua function expected")
    end
    local routine = create((...))
    return function(...)
        return passed_on(resume(routine, ...))
    end
end

-- The worlds.

local harmless = {
    "assert", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring", "type",
}
for _, name in pairs(harmless) do
    base[name] = _G[name]
end
base._VERSION = _VERSION

local strings = copy(string, {})

local shared = {
    bit = (shield(native.bit)),
    cjson = (shield(native.cjson)),
    cmsgpack = (shield(native.cmsgpack)),
    coroutine = shield(coroutines),
    math = shield(copy(native.math, copy(math, {}))),
    os = shield({ clock = os.clock }),
    string = shield(strings),
    struct = (shield(native.struct)),
    table = shield(tables),
}

getmetatable("").__index = strings
getmetatable("").__metatable = shield({ __index = shared.string })

local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- A world with its own `redis`: what scripts see, and the table behind it.
local function world(api)
    local content = copy(shared, copy(base, {}))
    local front, behaviour = shield(content)
    content._G = front
    content.redis = shield(api)
    content.server = content.redis
    loaders(content, front)
    setmetatable(content, { __index = missing })
    return front, content, behaviour
end

local scripts, script_content = world(native.script_api)
local libraries, library_content, library_behaviour = world(native.library_api)

-- All that a library sees while it is loaded.
local loading_content = setmetatable({
    redis = shield(setmetatable(native.loading_api, { __index = missing })),
}, { __index = missing })
loading_content.server = loading_content.redis

local function show_libraries(content)
    library_behaviour.__index = content
    shielded[libraries] = content
end

-- The way in for a library. Scripts and functions are entered from outside.

local on_error = native.on_error

local function run_loading(body)
    show_libraries(loading_content)
    local fine, value = xpcall(body, on_error)
    show_libraries(library_content)
    return fine, value
end

return scripts, script_content, libraries, run_loading
