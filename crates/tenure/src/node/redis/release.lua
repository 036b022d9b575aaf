-- Deletes the lock if it is the owner's.
-- KEYS: lock   ARGV: owner
-- Granted: the node's time in microseconds. Not the owner's: that time, in a list.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    return now
end
return {now}
