-- Releases, then takes. KEYS: the counter of tokens, the keys to release, the keys to take.
-- ARGV: expiry in milliseconds, the number of keys to release, the channel of freed names, the length of the prefix of keys;
-- then for each key the value of its holder and its mode (x: exclusive, s: shared).
-- Returns for each key to take its token, or the value of its first holder.
local expiry, released, channel, prefix = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(micros / 1000)
local last, drawn = nil, false

local function token()
    if not last then
        last = tonumber(redis.call('GET', KEYS[1]) or '0')
    end
    last = math.max(last + 1, micros)
    drawn = true
    return last
end

-- What is waited for is marked beside the lock: only then is its release published.
local function waiting(key)
    return 'mainspring:waiting:' .. key
end

local freed, marks = {}, {}
for i = 1, released do
    local key, value, mode = KEYS[i + 1], ARGV[3 + 2 * i], ARGV[4 + 2 * i]
    local is_freed = false
    if mode == 'x' then
        -- Of a sorted set this is an error, which is no value.
        if redis.pcall('GET', key) == value then
            redis.call('DEL', key)
            is_freed = true
        end
    elseif redis.call('TYPE', key).ok == 'zset' then
        redis.call('ZREM', key, value)
        is_freed = redis.call('EXISTS', key) == 0
    end
    if is_freed then
        freed[#freed + 1] = key
        marks[#marks + 1] = waiting(key)
    end
end
if #marks > 0 and redis.call('EXISTS', unpack(marks)) > 0 then
    for i, key in ipairs(freed) do
        if redis.call('DEL', marks[i]) == 1 then
            redis.call('PUBLISH', channel, string.sub(key, prefix + 1))
        end
    end
end

local function take(key, value, mode)
    if mode == 'x' and redis.call('SET', key, value, 'PX', expiry, 'NX') then
        return token()
    end
    local kind = redis.call('TYPE', key).ok
    if kind == 'zset' then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
        if redis.call('EXISTS', key) == 0 then
            kind = 'none'
        end
    end
    if mode == 'x' and kind == 'none' then
        redis.call('SET', key, value, 'PX', expiry)
        return token()
    end
    if mode == 's' and (kind == 'none' or kind == 'zset') then
        redis.call('ZADD', key, now + expiry, value)
        redis.call('PEXPIRE', key, math.max(expiry, redis.call('PTTL', key)))
        return token()
    end
    redis.call('SET', waiting(key), '1', 'PX', expiry)
    if kind == 'string' then
        return redis.call('GET', key)
    elseif kind == 'zset' then
        return redis.call('ZRANGE', key, 0, 0)[1]
    end
    return ''
end

local answers = {}
for i = released + 1, #KEYS - 1 do
    answers[i - released] = take(KEYS[i + 1], ARGV[3 + 2 * i], ARGV[4 + 2 * i])
end
if drawn then
    redis.call('SET', KEYS[1], string.format('%.0f', last))
end
return answers
