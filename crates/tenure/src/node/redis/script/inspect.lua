-- Tells who has the lock, how many wait for it, and who the first of them are.
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local waiters, line = call('ZCARD', KEYS.line), {}
-- Clients that were killed listen no more, and wait no more. Where we may not listen nobody may,
-- and all of them ask; who may not ask about others counts them.
if waiters > 0 then
    local gone, first = {}, {}
    -- More hardly wait for one lock.
    for _, ticket in ipairs(call('ZRANGE', KEYS.line, 0, 999)) do
        local client = string.match(ticket, '^%d+:(%x+)[ro]?$') or ''
        if GIVEN.listens and gone[client] == nil then
            local listeners = redis.pcall('PUBSUB', 'NUMSUB', LIMIT.CHANNEL .. client)
            gone[client] = listeners[2] == 0
        end
        if gone[client] then
            waiters = waiters - 1
        elseif #first < LIMIT.WAITERS_TOLD_MAX then
            first[#first + 1] = ticket
        end
    end
    -- What they said about themselves, as far as we may read it.
    local notes = 'tenure~waiting:{' .. KEYS.lock .. '}'
    for i, ticket in ipairs(first) do
        local note = redis.pcall('HGET', notes, ticket)
        line[2 * i - 1], line[2 * i] = ticket, type(note) == 'string' and note or ''
    end
end
-- Of another client's value, which may be long, the beginning is enough.
local owner, count, id = name_of(redis.pcall('GETRANGE', KEYS.lock, 0, 127)), -1, false
if type(owner) == 'table' then
    if not string.find(owner.err, 'WRONGTYPE', 1, true) then
        return owner
    end
    -- A reentrant lock, ours or another library's; or a key of another program, which is none.
    local field = redis.pcall('HSCAN', KEYS.lock, 0, 'COUNT', 1)
    if field[2] then
        owner, count = field[2][1], tonumber(field[2][2]) or 0
        id = group_of(KEYS.lock)
    else
        owner, count = redis.pcall('TYPE', KEYS.lock).ok or 'unknown', -2
    end
end
-- An empty value is another client's, too.
if owner == '' and call('EXISTS', KEYS.lock) == 0 then
    return {now, waiters, line}
end
local fence = string.match(call('GETRANGE', KEYS.fence, 0, 31), '^[1-9]%d*') or ''
local label, sharers, writer = call('GETRANGE', KEYS.label, 0, 511), {}, owner
if owner == LIMIT.SHARED and count < 0 or id then
    local holds, ms = 'tenure~holds:{' .. KEYS.lock .. '}', math.floor(now / 1000)
    sharers = call('ZRANGE', holds, ms, '+inf', 'BYSCORE', 'LIMIT', 0, LIMIT.SHARERS_MAX)
    writer = string.sub(label, 1, 40)
    writer = tonumber(call('ZSCORE', holds, writer) or 0) >= ms and writer or owner
    count = id and call('ZCOUNT', holds, ms, '+inf') or count
end
if string.sub(owner, 1, #LIMIT.KEPT) == LIMIT.KEPT then
    writer = string.sub(owner, 1 + #LIMIT.KEPT)
end
label = string.sub(label, 1, #writer + 1) == writer .. ' ' and string.sub(label, #writer + 2) or ''
local key, left = KEYS.lock, call('PTTL', KEYS.lock)
return {now, waiters, line, key, owner, left, count, fence, label, unpack(sharers)}
