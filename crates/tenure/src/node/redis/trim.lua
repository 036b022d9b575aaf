-- Forgets a batch of the fences that are older than the retention, by the node's own clock.
-- KEYS: fences   ARGV: retention in us, how many at most
-- The node's time in microseconds, how many were forgotten, how many are left.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local old = redis.call('ZRANGE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1]), 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #old > 0 then
    redis.call('ZREM', KEYS[1], unpack(old))
end
return {now, #old, redis.call('ZCARD', KEYS[1])}
