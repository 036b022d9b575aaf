-- Tells the node's record, and changes it first if it is what the client thinks.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local record = redis.call('GET', KEYS.record) or ''
if ARGV.text and record == ARGV.expected then
    record = ARGV.text
    if GIVEN.stamp then
        record = record .. string.format('%.0f', now)
    end
    redis.call('SET', KEYS.record, record)
end
return {now, record}
