-- Lengthens the lock's life if it is the owner's; never shortens it.
-- KEYS: lock   ARGV: owner, node ttl in ms
-- Granted: the node's time in microseconds. Else that time, and the lock's time left in ms if another has it.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
    return now
end
if owner then
    return {now, redis.call('PTTL', KEYS[1])}
end
return {now}
