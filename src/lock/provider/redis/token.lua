-- Draws a token for a holder of all of these keys. ARGV: for each key the value of its holder and its mode; what the token must be
-- at least. Returns the token, or nothing where one of the keys is not held any more.
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
for i = 1, #KEYS - from do
    local key, value, mode = KEYS[i + from], ARGV[2 * i - 1], ARGV[2 * i]
    local kind = redis.call('TYPE', key).ok
    local held = false
    if mode == 'x' and kind == 'string' then
        held = redis.call('GET', key) == value
    elseif mode == 's' and kind == 'zset' then
        local until_ms = redis.call('ZSCORE', key, value)
        held = until_ms and tonumber(until_ms) > math.floor(micros / 1000)
    end
    if not held then
        return false
    end
end
local last = math.max(last_token() + 1, micros, tonumber(ARGV[2 * (#KEYS - from) + 1]))
keep_token(last)
return last
