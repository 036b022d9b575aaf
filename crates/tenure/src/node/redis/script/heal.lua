-- Sets the lock again for its owner if it is free and nobody with a larger fence was granted it
-- since, and writes behind the owner from when on it counts. Set, or still there: the node's time.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = name_of(owner_of(KEYS.lock))
if owner == ARGV.owner then
    return now
end
if owner then
    local left = redis.call('PTTL', KEYS.lock)
    return {now, left}
end
local fence = GIVEN.fence and redis.call('GET', KEYS.fence)
if fence and tonumber(string.match(fence, '^%d+')) > tonumber(ARGV.fence) then
    return {now}
end
local from = string.format('%.0f', math.floor(now / 1000) + ARGV.quarantine)
redis.call('SET', KEYS.lock, ARGV.owner .. '~' .. from, 'PX', ARGV.ttl)
return now
