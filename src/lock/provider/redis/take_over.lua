-- Takes exclusive locks over from holders that are gone. KEYS: the counter of tokens, the keys. ARGV: expiry in milliseconds,
-- then for each key the value that was met and the value of the new holder. Returns for each key its token, or 0 where the
-- value is another one by now.
local expiry = tonumber(ARGV[1])
local time = redis.call('TIME')
local last = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(time[1]) * 1000000 + tonumber(time[2]))
local answers = {}
for i = 1, #KEYS - 1 do
    local key, met, value = KEYS[i + 1], ARGV[2 * i], ARGV[2 * i + 1]
    answers[i] = 0
    if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == met then
        redis.call('SET', key, value, 'PX', expiry)
        last = last + 1
        answers[i] = last
    end
end
redis.call('SET', KEYS[1], string.format('%.0f', last))
return answers
