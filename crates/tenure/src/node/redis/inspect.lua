-- Tells who has the lock.
-- KEYS: lock
-- The node's time in microseconds, the next cursor (always 0), and if it is held: key, owner, time left in ms.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = redis.call('GET', KEYS[1])
if owner then
    return {now, '0', KEYS[1], owner, redis.call('PTTL', KEYS[1])}
end
return {now, '0'}
