-- Extends what is still held. ARGV: expiry in milliseconds, then for each key the value of its holder and its
-- mode. Returns for each key 1, or 0 where another holder has it or none.
local expiry = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local answers = {}
for i = 1, #KEYS - from do
    local key = KEYS[i + from]
    local value, mode = ARGV[2 * i], ARGV[2 * i + 1]
    local kind = redis.call('TYPE', key).ok
    answers[i] = 0
    if mode == 'x' and kind == 'string' and redis.call('GET', key) == value then
        redis.call('PEXPIRE', key, expiry)
        answers[i] = 1
    elseif mode == 's' and kind == 'zset' then
        local until_ms = redis.call('ZSCORE', key, value)
        if until_ms and tonumber(until_ms) > now then
            redis.call('ZADD', key, now + expiry, value)
            redis.call('PEXPIRE', key, math.max(expiry, redis.call('PTTL', key)))
            answers[i] = 1
        end
    end
end
return answers
