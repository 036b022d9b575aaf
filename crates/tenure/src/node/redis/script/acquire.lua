-- Grants the lock if it is free or set aside for this waiter. Otherwise refuses it, and a waiter
-- with a ticket gets in line. The steps come in the order in which they happen. A function costs
-- the server time whenever the script gets there, and each upvalue as much again: so they are few,
-- and have none.
local call, ticket, was_aside, left = redis.call, GIVEN.ticket, false, nil

-- 1. Nothing is granted in a life of the node's memory that the client does not know.
if GIVEN.looks_at_record and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
    local time = call('TIME')
    return {time[1] * 1000000 + time[2], OUTCOME.STRANGER}
end

-- 2. Take it. Who had it before: nobody, and it is ours now.
local holder = call('SET', KEYS.lock, ARGV.owner, 'NX', 'GET', 'PX', ARGV.ttl)
if ticket and holder == LIMIT.RESERVED .. ticket then
    -- Claim what was set aside.
    was_aside, holder = true, false
    call('SET', KEYS.lock, ARGV.owner, 'PX', ARGV.ttl)
elseif ticket and not holder then
    left = call('PTTL', KEYS.open)
    if left >= 0 then
        -- For this moment it belongs to those outside the line: as if it were set aside for them.
        call('DEL', KEYS.lock)
        holder = LIMIT.RESERVED
    end
end

-- 3. Promise the fence, if it is a new highest and near the node's clock; tell whether somebody may
--    be in line. If it is not, give back what was taken: no, and the answer.
local function promise_fence(now, was_aside)
    -- Looked up once: faster.
    local call, string, ARGV = redis.call, string, ARGV
    local fence, outcome, last, highest = tonumber(ARGV.fence), nil, nil, nil
    -- Of a range this is the largest, which is kept; the smallest must be new.
    local low = fence - (GIVEN.span or 0)
    if fence > now + LIMIT.SLACK then
        outcome = OUTCOME.AHEAD
    elseif low <= now - LIMIT.AGE then
        outcome, last = OUTCOME.BEHIND, call('GET', KEYS.fence)
        highest = last and tonumber(string.match(last, '^%d+'))
    else
        -- If it was set aside for us, others may be in line behind us: the mark stays.
        local kept = ARGV.fence .. ARGV.life .. (was_aside and '+' or '')
        last = call('SET', KEYS.fence, kept, 'PXAT', ARGV.ends, 'GET')
        local life = last and string.find(last, ARGV.life, 1, true)
        highest = last and tonumber(life and string.sub(last, 1, life - 1) or string.match(last, '^%d+'))
        -- Nobody is told when databases change places: the fences that are here then are of another
        -- life.
        if not life and not GIVEN.looks_at_record and GIVEN.nonce
            and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
            outcome = OUTCOME.STRANGER
        elseif not last or highest == 0 then
            call('RPUSH', KEYS.fences, ARGV.ends .. ':' .. KEYS.fence)
        elseif highest >= low then
            outcome = OUTCOME.BEHIND
        end
        if not outcome then
            -- 43: a plus, the mark.
            return last and string.byte(last, -1) == 43
        end
        -- What was there stays, for as long as it would have.
        if last then
            local longer = highest > 0 and math.floor(highest / 1000) - math.floor(fence / 1000) or 0
            call('SET', KEYS.fence, last, 'PXAT', ARGV.ends + longer)
        else
            call('DEL', KEYS.fence)
        end
    end
    if was_aside and outcome ~= OUTCOME.STRANGER then
        call('SET', KEYS.lock, LIMIT.RESERVED .. ARGV.ticket, 'PX', LIMIT.RESERVATION)
    else
        call('DEL', KEYS.lock)
    end
    if outcome ~= OUTCOME.BEHIND then
        return false, {now, outcome}
    end
    local lowest = string.format('%.0f', math.max(highest or 0, now - LIMIT.AGE))
    return false, {now, outcome, lowest}
end

-- 4. Grant it.
if not holder then
    -- Cheaper than asking for the time.
    local now = (call('PEXPIRETIME', KEYS.lock) - ARGV.ttl) * 1000
    local queued, refusal, next_ticket = false, nil, ''
    if GIVEN.fence then
        queued, refusal = promise_fence(now, was_aside)
        if refusal then
            return refusal
        end
    end
    if GIVEN.label then
        call('SET', KEYS.label, ARGV.owner .. ' ' .. ARGV.label, 'PX', LIMIT.LABEL_RETENTION)
    end
    if was_aside then
        queued = false
        if GIVEN.fence and not LIMIT.FENCES_OUTLIVE_LINES then
            call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
        end
    elseif ticket then
        call('ZREM', KEYS.line, ticket)
        next_ticket = call('ZRANGE', KEYS.line, 0, 0)[1]
        queued = next_ticket
    end
    if not queued then
        return now
    end
    if GIVEN.fence then
        call('SET', KEYS.fence, ARGV.fence .. ARGV.life .. '+', 'KEEPTTL')
        call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
    end
    return {now, OUTCOME.GRANTED, next_ticket}
end

-- 5. Refuse it.
local now = call('TIME')
now = now[1] * 1000000 + now[2]
-- Whose it is, also if it was put back: then it is not what this owner's acquire has set.
local name = string.sub(holder, 41, 41) == '~' and string.match(holder, '^(%x+)~%d+$') or holder
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
local label = call('GET', KEYS.label)
label = label and string.sub(label, 1, #name + 1) == name .. ' ' and string.sub(label, #name + 2) or ''
return {now, outcome, left, '', ahead, waiters, label}
