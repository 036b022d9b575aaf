-- Makes the resource remember the fence of a new holder, then reads it.
-- KEYS: resource (a hash with the fields fence and value)   ARGV: fence
-- The value, nil if there is none. An error that begins with STALE if a later holder has been here.
-- Lua also takes 'inf' and 'nan' for numbers, and beyond 2^53 it cannot tell neighbours apart.
if not string.find(ARGV[1], '^%d+$') or tonumber(ARGV[1]) > 9007199254740992 then
    return redis.error_reply('ERR ' .. ARGV[1] .. ' is not a fence: pass the digits of one')
end
-- No real fence is 1, and that of a lock without fencing is 0: such a one is refused also by a new
-- resource.
local seen = redis.call('HGET', KEYS[1], 'fence') or '1'
if tonumber(ARGV[1]) < tonumber(seen) then
    return redis.error_reply('STALE fence ' .. ARGV[1] .. ' is older than ' .. seen .. ': acquire the lock again')
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'value')
