-- Tells the node's record, and changes it first if it is what the client thinks. An empty one gives
-- the prefix up: the fences that were granted under it go, too, each with its opening.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local record = redis.call('GET', KEYS.record) or ''
if ARGV.text and record == ARGV.expected then
    record = ARGV.text
    if GIVEN.stamp then
        record = record .. string.format('%.0f', now)
    end
    if record ~= '' then
        redis.call('SET', KEYS.record, record)
    else
        redis.call('DEL', KEYS.record)
        for _, entry in ipairs(redis.call('LRANGE', KEYS.fences, 0, -1)) do
            local name = string.match(entry, '^%d*:?tenure~fence:(.*)$')
            -- What begins with 0 is a mark alone.
            local last = name and redis.call('GET', 'tenure~fence:' .. name)
            if last and string.sub(last, 1, 1) ~= '0' then
                redis.call('DEL', 'tenure~fence:' .. name, 'tenure~open:' .. name)
            end
        end
        redis.call('DEL', KEYS.fences)
    end
end
return {now, record}
