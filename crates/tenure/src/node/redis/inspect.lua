-- Tells who has the lock and how many wait for it.
-- KEYS: lock, fence, waiters in line, label   ARGV: 1 if we listen to be woken
-- CHANNEL: what the channel begins with on which a client is woken. Set in a line before this
-- The node's time in microseconds, the next cursor (always '0'), how many wait; and if it is not free: key, owner, time left in
-- ms, last fence ('' for none), the owner's label ('' for none).
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local waiters = call('ZCARD', KEYS[3])
-- Clients that were killed listen no more, and wait no more. Where we may not listen nobody may, and all of them ask; who may
-- not ask about others counts them.
if waiters > 0 and ARGV[1] == '1' then
    local gone = {}
    -- More hardly wait for one lock.
    for _, ticket in ipairs(call('ZRANGE', KEYS[3], 0, 999)) do
        local client = string.match(ticket, '^%d+:(%x+)$') or ''
        if gone[client] == nil then
            local listeners = redis.pcall('PUBSUB', 'NUMSUB', CHANNEL .. client)
            gone[client] = listeners[2] == 0
        end
        if gone[client] then
            waiters = waiters - 1
        end
    end
end
-- Of another client's value, which may be long, the beginning is enough.
local owner = name_of(call('GETRANGE', KEYS[1], 0, 127))
if owner == '' then
    return {now, '0', waiters}
end
local fence = string.match(call('GETRANGE', KEYS[2], 0, 31), '^[1-9]%d*') or ''
local label = call('GETRANGE', KEYS[4], 0, 511)
label = string.sub(label, 1, #owner + 1) == owner .. ' ' and string.sub(label, #owner + 2) or ''
return {now, '0', waiters, KEYS[1], owner, call('PTTL', KEYS[1]), fence, label}
