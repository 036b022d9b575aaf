-- 5. Refuse it: what follows when it is not free, or those who share it give way.
local now = call('TIME')
now = now[1] * 1000000 + now[2]
-- Whose it is, also if it was put back: then it is not what this owner's acquire has set.
local name = string.sub(holder, 41, 41) == '~' and string.match(holder, '^(%x+)~%d+$') or holder
if string.sub(holder, 1, #LIMIT.KEPT) == LIMIT.KEPT then
    name = string.sub(holder, 1 + #LIMIT.KEPT)
end
local is_reserved = string.sub(holder, 1, #LIMIT.RESERVED) == LIMIT.RESERVED
local outcome = is_reserved and OUTCOME.RESERVED or OUTCOME.HELD
local last = (GIVEN.fence or ticket) and call('GET', KEYS.fence)
if not ticket or name == ARGV.owner then
    local lowest, highest = '', last and string.match(last, '^%d+')
    -- Asked again, because the first answer was lost. With another fence it is not the same
    -- question.
    if holder == ARGV.owner and (not GIVEN.fence or highest == ARGV.fence) then
        return now
    end
    if GIVEN.fence then
        lowest = string.format('%.0f', math.max(tonumber(highest or 0), now - LIMIT.AGE))
    end
    left = left or call('PTTL', KEYS.lock)
    return {now, outcome, left, lowest}
end

-- 6. Get in line: how many are ahead, and how many wait. Who may only get in line behind everybody,
--    and cannot, does not: nil, and the last number.
local function get_in_line(ticket)
    local call, line = redis.call, KEYS.line
    local number, waiters = string.match(ticket, '^%d+'), call('ZCARD', line)
    local ahead = waiters
    if GIVEN.fresh and waiters > 0 then
        local last_number = string.match(call('ZRANGE', line, -1, -1)[1], '^%d+')
        if last_number and tonumber(last_number) >= tonumber(number) and not call('ZSCORE', line, ticket) then
            return nil, last_number
        end
    end
    if waiters < LIMIT.WAITERS_MAX then
        waiters = waiters + call('ZADD', line, number, ticket)
        -- 114: an r. Those who share the lock are listed once more.
        if string.byte(ticket, -1) == 114 then
            local readers = 'tenure~readers:{' .. KEYS.lock .. '}'
            call('ZADD', readers, number, ticket)
            call('PEXPIRE', readers, LIMIT.LINE_RETENTION)
        end
    end
    -- Who has come last is last.
    if not GIVEN.fresh or waiters == ahead then
        ahead = call('ZRANK', line, ticket) or waiters
    end
    -- Now and then is enough.
    if not GIVEN.fresh or waiters == 1 or string.sub(number, -2) < '05' then
        call('PEXPIRE', line, LIMIT.LINE_RETENTION)
    end
    return ahead, waiters
end

-- Leaves a mark behind the fence that somebody is in line. It lives as long as the line does.
local function mark_fence(last)
    if not last then
        redis.call('SET', KEYS.fence, '0+', 'PX', LIMIT.LINE_RETENTION)
    elseif string.sub(last, -1) ~= '+' then
        redis.call('SET', KEYS.fence, last .. '+', 'KEEPTTL')
    end
    if not LIMIT.FENCES_OUTLIVE_LINES then
        redis.call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
    end
end

left = left or call('PTTL', KEYS.lock)
local ahead, waiters = get_in_line(ticket)
if not ahead then
    local last_number = waiters
    return {now, OUTCOME.OVERTAKEN, last_number}
end
mark_fence(last)
if GIVEN.label or GIVEN.holding then
    -- What it says about itself, for whoever asks who waits: nobody is refused because of it, not
    -- even if the server does not let us write it. There may be no room for it in line.
    local notes, own = 'tenure~waiting:{' .. KEYS.lock .. '}', GIVEN.label or ''
    local is_there = waiters < LIMIT.WAITERS_MAX or call('ZSCORE', KEYS.line, ticket)
    local number = string.match(ticket, '^%d+')
    local is_new = is_there
        and redis.pcall('HSET', notes, ticket, #own .. ':' .. own .. (GIVEN.holding or '')) == 1
    call('PEXPIRE', notes, LIMIT.LINE_RETENTION)
    -- Whoever leaves the line leaves its note behind, so that nothing is slower for it. Every tenth
    -- waiter looks at some, beginning anywhere, and removes those that are left over.
    if is_new and string.sub(number, -1) == '0' then
        local some = redis.pcall('HSCAN', notes, tonumber(string.sub(number, -6)), 'COUNT', 40)[2] or {}
        for i = 1, #some, 2 do
            if not call('ZSCORE', KEYS.line, some[i]) then
                redis.pcall('HDEL', notes, some[i])
            end
        end
    end
end
local label = call('GET', KEYS.label)
if label and name == LIMIT.SHARED then
    -- One of those who share it wrote it, if that one still does.
    local owner = string.sub(label, 1, 40)
    local ends = call('ZSCORE', 'tenure~holds:{' .. KEYS.lock .. '}', owner)
    name = ends and tonumber(ends) >= math.floor(now / 1000) and owner or name
end
label = label and string.sub(label, 1, #name + 1) == name .. ' ' and string.sub(label, #name + 2) or ''
-- Owners of ours have 40 hexadecimal digits.
local is_ours = is_reserved or holder == LIMIT.SHARED or #name == 40 and not string.find(name, '%X')
return {now, outcome, left, '', ahead, waiters, label, is_ours and 0 or 1}
