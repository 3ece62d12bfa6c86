-- Precedes each script. `from`: how many of KEYS precede those of locks. `counter`: the key of the last token. `asked`: this node is about
-- to receive the hash slot; a key that the other node still has must not be made here, or it could not be moved.
local function last_token()
    local last = redis.pcall('GET', counter)
    return type(last) == 'string' and tonumber(last) or 0
end

-- While its hash slot moves, the counter may be at the other node: then the clock alone makes tokens grow.
local function keep_token(last)
    local text = string.format('%.0f', last)
    if asked then
        redis.pcall('SET', counter, text, 'XX')
    else
        redis.pcall('SET', counter, text)
    end
end

