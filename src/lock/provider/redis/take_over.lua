-- Takes exclusive locks over from holders that are gone. ARGV: expiry in milliseconds, then for each key the value that was met and
-- the value of the new holder. Returns for each key its token, or 0 where the value is another one by now.
local expiry = tonumber(ARGV[1])
local time = redis.call('TIME')
local last = math.max(last_token(), tonumber(time[1]) * 1000000 + tonumber(time[2]))
local answers = {}
for i = 1, #KEYS - from do
    local key, met, value = KEYS[i + from], ARGV[2 * i], ARGV[2 * i + 1]
    answers[i] = 0
    local found = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key)
    -- A call that is sent again finds its own value.
    if found == met or found == value then
        redis.call('SET', key, value, 'PX', expiry)
        last = last + 1
        answers[i] = last
    end
end
keep_token(last)
return answers
