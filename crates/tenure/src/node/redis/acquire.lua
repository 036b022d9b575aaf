-- Sets the lock to the owner if it is free.
-- KEYS: lock   ARGV: owner, node ttl in ms
-- 1 if it is the owner's. Held by another: the node's time in microseconds, and the lock's time left in ms.
-- Asked again by the same owner, the first answer was lost: it is granted, and lives no longer for it.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[1]) == ARGV[1] then
    return 1
end
local now = redis.call('TIME')
return {now[1] * 1000000 + now[2], redis.call('PTTL', KEYS[1])}
