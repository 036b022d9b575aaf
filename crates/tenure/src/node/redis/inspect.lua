-- Tells who has the lock.
-- KEYS: lock
-- The node's time in microseconds, the next cursor (always 0), and if it is held: key, owner, time left in ms.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
-- Of another client's value, which may be long, the beginning is enough.
local owner = redis.call('GETRANGE', KEYS[1], 0, 127)
if owner ~= '' then
    return {now, '0', KEYS[1], owner, redis.call('PTTL', KEYS[1])}
end
return {now, '0'}
