-- Sets the lock to the owner if it is free.
-- KEYS: lock   ARGV: owner, node ttl in ms
-- Granted: the node's time in microseconds. Held by another: that time, and the lock's time left in ms.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
-- Asked again by the same owner: the first answer was lost. It is granted, and lives no longer for it.
if owner == false or owner == ARGV[1] then
    return now
end
return {now, redis.call('PTTL', KEYS[1])}
