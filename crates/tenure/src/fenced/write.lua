-- Sets the value for the holder that claimed the resource last.
--
-- KEYS: resource (a hash with the fields fence and value)   ARGV: fence, value
--
-- OK, or an error: STALE if a later holder has claimed it, UNCLAIMED if this one has not. What was
-- read before the claim, or before the resource lost its memory, may be old, so a larger fence is
-- not enough.
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen == ARGV[1] then
    redis.call('HSET', KEYS[1], 'value', ARGV[2])
    return redis.status_reply('OK')
end
if seen and (tonumber(ARGV[1]) or 0) < tonumber(seen) then
    return redis.error_reply('STALE fence ' .. ARGV[1] .. ' is older than ' .. seen .. ': acquire the lock again')
end
return redis.error_reply('UNCLAIMED fence ' .. ARGV[1] .. ' was not claimed: claim, read, then write')
