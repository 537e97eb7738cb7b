-- Walks all that a script can reach: what tables hold, their metatables, and what functions give
-- back for some arguments. `report` tells what is there, by the path on which each table and
-- function was met first; `spoil` tries to change each table in each way that there is.
local seen, order, is_result = {}, {}, {}

local function note(value, path, result)
    local kind = type(value)
    if (kind == 'table' or kind == 'function') and seen[value] == nil then
        seen[value] = path
        order[#order + 1] = value
        is_result[value] = result
    end
end

local function samples()
    return {
        {}, {'x'}, {'[]'}, {'{"a":[1,[]]}'}, {'x', 'x'}, {1}, {1, 1}, {{}}, {{}, {}}, {{1, 2}, 1},
        {true}, {function() return nil end}, {function() return {} end, function() return {} end},
        {redis}, {''}, {string},
    }
end

local function walk(visit)
    if cjson then
        cjson.decode_array_with_array_mt(true)
    end
    note(_G, '_G')
    note(getmetatable(''), 'text')
    note(getmetatable(1), 'number')
    note(getmetatable(cjson.null), 'null')
    local position = 1
    while order[position] ~= nil do
        local value, path = order[position], seen[order[position]]
        position = position + 1
        if type(value) == 'table' then
            visit(value, path)
        elseif not is_result[value] then
            for number, arguments in ipairs(samples()) do
                local results = {pcall(value, unpack(arguments))}
                for index = 2, 4 do
                    note(results[index], path .. '#' .. number .. '.' .. index, true)
                end
                for index, argument in pairs(arguments) do
                    -- What a function did to its arguments.
                    if type(argument) == 'table' then
                        note(getmetatable(argument), path .. '#' .. number .. '!' .. index, true)
                    end
                end
            end
        end
    end
    return position
end

local function sorted_keys(of)
    local keys = {}
    for key in next, of do
        if type(key) == 'string' or type(key) == 'number' then
            keys[#keys + 1] = key
        end
    end
    table.sort(keys, function(left, right) return tostring(left) < tostring(right) end)
    return keys
end

local function report()
    local lines = {}
    walk(function(of, path)
        local behaviour = getmetatable(of)
        note(behaviour, path .. '^')
        local words = {path, tostring(behaviour and seen[behaviour] or behaviour)}
        for _, key in ipairs(sorted_keys(of)) do
            local value = rawget(of, key)
            note(value, path .. '.' .. key, is_result[of])
            local word = seen[value] or type(value)
            if type(value) == 'boolean' or path == '_G.KEYS' or path == '_G.ARGV' then
                word = tostring(value)
            end
            words[#words + 1] = tostring(key) .. '=' .. word
        end
        lines[#lines + 1] = table.concat(words, ' ')
    end)
    return table.concat(lines, '\n')
end

local function spoil()
    local count = 0
    local function mark() return 'spoiled' end
    walk(function(of, path)
        local behaviour = getmetatable(of)
        if behaviour ~= nil then
            note(behaviour, path .. '^')
        end
        local keys = sorted_keys(of)
        for _, key in ipairs(keys) do
            note(rawget(of, key), path .. '.' .. key, is_result[of])
        end
        if is_result[of] == nil then
            count = count + 1
        end
        -- Results are written as well: what many runs share may come back from a function.
        pcall(function() of.spoiled = mark end)
        pcall(function() of[1] = mark end)
        pcall(rawset, of, 'spoiled', mark)
        pcall(rawset, of, 2, mark)
        pcall(table.insert, of, mark)
        pcall(table.insert, of, 1, mark)
        pcall(table.sort, of, function() return true end)
        pcall(table.remove, of)
        pcall(setmetatable, of, {__index = mark, spoiled = true})
        pcall(setmetatable, of, nil)
        if behaviour == nil or behaviour.__index ~= nil then
            for _, key in ipairs(keys) do
                local value = rawget(of, key)
                pcall(function() of[key] = nil end)
                pcall(function() of[key] = mark end)
                pcall(rawset, of, key, value)
            end
        end
    end)
    return count
end
