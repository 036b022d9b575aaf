-- Sets the lock if it is free, the node's record is the one that the client knows, and the fence is a new highest.
-- KEYS: lock, fence, queue of fences by their end, record
-- ARGV: owner, node ttl in ms, fence ('' for none), when it is forgotten in ms, nonce; and if the server does not tell by
--       itself that the record has changed: 1. If it does, the record is looked at for names that are new here.
-- SLACK, AGE: how far the fence may be ahead of the node's clock and behind it, in us; set in a line before this
-- Granted: the node's time in microseconds. Else that time and why not:
--   1, time left in ms, lowest fence: held   2, lowest fence: fence too small   3: fence too large   4: another record
local call = redis.call
local known = not ARGV[6] or call('GETRANGE', KEYS[4], 0, 15) == ARGV[5]
-- Who had it before: nobody, and it is set.
local owner = known and call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if known and not owner then
    -- Cheaper than asking for the time.
    local now = (call('PEXPIRETIME', KEYS[1]) - ARGV[2]) * 1000
    if ARGV[3] == '' then
        return now
    end
    local fence, last = tonumber(ARGV[3]), nil
    if fence > now - AGE and fence <= now + SLACK then
        last = call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[4], 'GET')
        if not last and (ARGV[6] or not KEYS[4] or call('GETRANGE', KEYS[4], 0, 15) == ARGV[5]) then
            call('RPUSH', KEYS[3], ARGV[4] .. ':' .. KEYS[2])
            return now
        end
        if not last then
            call('DEL', KEYS[1], KEYS[2])
            return {now, 4}
        end
        if tonumber(last) < fence then
            return now
        end
        -- The larger one stays, for as long as it would have.
        call('SET', KEYS[2], last, 'PXAT', ARGV[4] + math.floor(last / 1000) - math.floor(fence / 1000))
    end
    call('DEL', KEYS[1])
    if fence > now + SLACK then
        return {now, 3}
    end
    last = tonumber(last or call('GET', KEYS[2]) or 0)
    return {now, 2, string.format('%.0f', math.max(last, now - AGE))}
end
local now = call('TIME')
now = now[1] * 1000000 + now[2]
if not known then
    return {now, 4}
end
if ARGV[3] == '' then
    return owner == ARGV[1] and now or {now, 1, call('PTTL', KEYS[1]), ''}
end
local last = call('GET', KEYS[2])
-- Asked again, because the first answer was lost. With another fence it is not the same question.
if owner == ARGV[1] and last == ARGV[3] then
    return now
end
return {now, 1, call('PTTL', KEYS[1]), string.format('%.0f', math.max(tonumber(last or 0), now - AGE))}
