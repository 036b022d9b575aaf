-- What is kept beside a lock: its fence, what its holder wrote, how many wait, and how many hold it
-- if it is shared or reentrant.
local function details_of(lock, owner, count, now)
    local beside, pcall = '{' .. lock .. '}', redis.pcall
    local fence = pcall('GETRANGE', 'tenure~fence:' .. beside, 0, 31)
    fence = type(fence) == 'string' and string.match(fence, '^[1-9]%d*') or ''
    local label = pcall('GETRANGE', 'tenure~label:' .. beside, 0, 511)
    label = type(label) == 'string' and label or ''
    local waiters = pcall('ZCARD', 'tenure~queue:' .. beside)
    waiters = type(waiters) == 'number' and waiters or 0
    local writer, holds = owner, -1
    if owner == LIMIT.SHARED and count < 0 or count >= 0 and group_of(lock) then
        local key, ms = 'tenure~holds:' .. beside, math.floor(now / 1000)
        holds = pcall('ZCOUNT', key, ms, '+inf')
        holds = type(holds) == 'number' and holds or -1
        writer = string.sub(label, 1, 40)
        local ends = pcall('ZSCORE', key, writer)
        writer = (type(ends) == 'string' and tonumber(ends) or 0) >= ms and writer or owner
    end
    if string.sub(owner, 1, #LIMIT.KEPT) == LIMIT.KEPT then
        writer = string.sub(owner, 1 + #LIMIT.KEPT)
    end
    label = string.sub(label, 1, #writer + 1) == writer .. ' ' and string.sub(label, #writer + 2) or ''
    return fence, label, waiters, holds
end
