-- Sets the lock again for its owner if it is free and nobody with a larger fence was granted it since, and writes behind the
-- owner from when on it counts.
-- KEYS: lock, fence   ARGV: owner, node ttl in ms, fence ('' for none), for how long it does not count in ms
-- Set, or still there: the node's time in microseconds. Else that time, and the time left in ms if another has it.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local owner = name_of(owner_of(KEYS[1]))
if owner == ARGV[1] then
    return now
end
if owner then
    return {now, redis.call('PTTL', KEYS[1])}
end
local fence = ARGV[3] ~= '' and redis.call('GET', KEYS[2])
if fence and tonumber(string.match(fence, '^%d+')) > tonumber(ARGV[3]) then
    return {now}
end
local from = string.format('%.0f', math.floor(now / 1000) + ARGV[4])
redis.call('SET', KEYS[1], ARGV[1] .. '~' .. from, 'PX', ARGV[2])
return now
