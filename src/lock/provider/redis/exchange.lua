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

for i = 1, released do
    local key, value, mode = KEYS[i + 1], ARGV[3 + 2 * i], ARGV[4 + 2 * i]
    local kind = redis.call('TYPE', key).ok
    local freed = false
    if mode == 'x' then
        if kind == 'string' and redis.call('GET', key) == value then
            redis.call('DEL', key)
            freed = true
        end
    elseif kind == 'zset' then
        redis.call('ZREM', key, value)
        freed = redis.call('EXISTS', key) == 0
    end
    if freed and redis.call('DEL', waiting(key)) == 1 then
        redis.call('PUBLISH', channel, string.sub(key, prefix + 1))
    end
end

local answers = {}
for i = released + 1, #KEYS - 1 do
    local key, value, mode = KEYS[i + 1], ARGV[3 + 2 * i], ARGV[4 + 2 * i]
    local kind = redis.call('TYPE', key).ok
    if kind == 'zset' then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
        if redis.call('EXISTS', key) == 0 then
            kind = 'none'
        end
    end
    local answer
    if mode == 'x' and kind == 'none' then
        redis.call('SET', key, value, 'PX', expiry)
        answer = token()
    elseif mode == 's' and (kind == 'none' or kind == 'zset') then
        redis.call('ZADD', key, now + expiry, value)
        redis.call('PEXPIRE', key, math.max(expiry, redis.call('PTTL', key)))
        answer = token()
    else
        redis.call('SET', waiting(key), '1', 'PX', expiry)
        if kind == 'string' then
            answer = redis.call('GET', key)
        elseif kind == 'zset' then
            answer = redis.call('ZRANGE', key, 0, 0)[1]
        else
            answer = ''
        end
    end
    answers[i - released] = answer
end
if drawn then
    redis.call('SET', KEYS[1], string.format('%.0f', last))
end
return answers
