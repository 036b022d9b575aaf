-- Tells the node's record, and changes it first if it is what the client thinks.
-- KEYS: record   ARGV: nothing, or: the record as it must be ('' for none), as it shall be, '1' to add the node's time
-- The node's time in microseconds, and the record ('' for none).
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local record = redis.call('GET', KEYS[1]) or ''
if ARGV[2] and record == ARGV[1] then
    record = ARGV[2]
    if ARGV[3] == '1' then
        record = record .. string.format('%.0f', now)
    end
    redis.call('SET', KEYS[1], record)
end
return {now, record}
