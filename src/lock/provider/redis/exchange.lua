-- Releases, then takes. Keys: those to release, those to take.
-- ARGV: expiry in milliseconds, the number of keys to release, the channel of freed names, the length of the prefix of keys, what
-- begins the names of marks; then for each key the value of its holder and its mode (x: exclusive, s: shared).
-- Returns for each key to take its token, or the value of its first holder.
local expiry, released, channel, prefix = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(micros / 1000)
local last, drawn = nil, false

local function token()
    last = math.max((last or last_token()) + 1, micros)
    drawn = true
    return last
end

-- What is waited for is marked beside the lock: only then is its release published.
local function waiting(key)
    return ARGV[5] .. key
end

local freed, marks = {}, {}
for i = 1, released do
    local key, value, mode = KEYS[i + from], ARGV[4 + 2 * i], ARGV[5 + 2 * i]
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
-- A mark that is on its way to another node is an error, which counts as one.
if #marks > 0 and (asked or redis.pcall('EXISTS', unpack(marks)) ~= 0) then
    for i, key in ipairs(freed) do
        if redis.pcall('DEL', marks[i]) ~= 0 or asked then
            redis.call('PUBLISH', channel, string.sub(key, prefix + 1))
        end
    end
end

-- A call that is sent again because its answer was lost finds its own value, and gets the lock.
local function take(key, value, mode)
    if mode == 'x' and redis.call('SET', key, value, 'PX', expiry, 'NX') then
        return token()
    end
    local kind = redis.call('TYPE', key).ok
    if mode == 'x' and kind == 'string' and redis.call('GET', key) == value then
        redis.call('PEXPIRE', key, expiry)
        return token()
    end
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
    if not asked then
        redis.pcall('SET', waiting(key), '1', 'PX', expiry)
    end
    if kind == 'string' then
        return redis.call('GET', key)
    elseif kind == 'zset' then
        return redis.call('ZRANGE', key, 0, 0)[1]
    end
    return ''
end

local answers = {}
for i = released + 1, #KEYS - from do
    answers[i - released] = take(KEYS[i + from], ARGV[4 + 2 * i], ARGV[5 + 2 * i])
end
if drawn then
    keep_token(last)
end
return answers
