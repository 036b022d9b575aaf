-- Tells who has the lock and how many wait for it.
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local waiters = call('ZCARD', KEYS.line)
-- Clients that were killed listen no more, and wait no more. Where we may not listen nobody may,
-- and all of them ask; who may not ask about others counts them.
if waiters > 0 and GIVEN.listens then
    local gone = {}
    -- More hardly wait for one lock.
    for _, ticket in ipairs(call('ZRANGE', KEYS.line, 0, 999)) do
        local client = string.match(ticket, '^%d+:(%x+)$') or ''
        if gone[client] == nil then
            local listeners = redis.pcall('PUBSUB', 'NUMSUB', LIMIT.CHANNEL .. client)
            gone[client] = listeners[2] == 0
        end
        if gone[client] then
            waiters = waiters - 1
        end
    end
end
-- Of another client's value, which may be long, the beginning is enough.
local owner = name_of(call('GETRANGE', KEYS.lock, 0, 127))
if owner == '' then
    return {now, waiters}
end
local fence = string.match(call('GETRANGE', KEYS.fence, 0, 31), '^[1-9]%d*') or ''
local label = call('GETRANGE', KEYS.label, 0, 511)
label = string.sub(label, 1, #owner + 1) == owner .. ' ' and string.sub(label, #owner + 2) or ''
local key, left = KEYS.lock, call('PTTL', KEYS.lock)
return {now, waiters, key, owner, left, fence, label}
