-- Sets the lock if it is free, the node's record is the one that the client knows, and the fence is a new highest.
-- KEYS: lock, fence, record   ARGV: owner, node ttl in ms, nonce, fence ('' for none), when it is forgotten in ms, slack,
--       half the retention in us
-- Granted: the node's time in microseconds. Else that time and why not:
--   1, time left in ms, lowest fence: held   2, lowest fence: fence too small   3: fence too large   4: another record
local known = redis.call('GETRANGE', KEYS[3], 0, 15) == ARGV[3]
local free = known and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
if free and ARGV[4] == '' then
    return now
end
if not known then
    return {now, 4}
end
local function lowest(last)
    return string.format('%.0f', math.max(tonumber(last or 0), now - ARGV[7]))
end
if free then
    local fence, last = tonumber(ARGV[4]), false
    if fence > now - ARGV[7] and fence <= now + ARGV[6] then
        last = redis.call('SET', KEYS[2], ARGV[4], 'PXAT', ARGV[5], 'GET')
        if not last or tonumber(last) < fence then
            return now
        end
        -- The larger one stays, for as long as it would have.
        redis.call('SET', KEYS[2], last, 'PXAT', ARGV[5] + math.floor(last / 1000) - math.floor(fence / 1000))
    end
    redis.call('DEL', KEYS[1])
    if fence > now + ARGV[6] then
        return {now, 3}
    end
    return {now, 2, lowest(last or redis.call('GET', KEYS[2]))}
end
local owner, last = redis.call('GET', KEYS[1]), ARGV[4] ~= '' and redis.call('GET', KEYS[2])
-- Asked again, because the first answer was lost. With another fence it is not the same question.
if owner == ARGV[1] and (ARGV[4] == '' or last == ARGV[4]) then
    return now
end
return {now, 1, redis.call('PTTL', KEYS[1]), ARGV[4] == '' and '' or lowest(last)}
