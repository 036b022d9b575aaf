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
local holder = redis.pcall('SET', KEYS.lock, ARGV.owner, 'NX', 'GET', 'PX', ARGV.ttl)
if type(holder) == 'table' then
    -- What is there is no string, or the server will not write.
    local kind, time = call('TYPE', KEYS.lock).ok, call('TIME')
    return string.find(holder.err, 'WRONGTYPE', 1, true)
        and {time[1] * 1000000 + time[2], OUTCOME.OTHER_KIND, kind} or holder
end
if ticket and holder == LIMIT.RESERVED .. ticket then
    -- Claim what was set aside, so long ago.
    was_aside, holder, left = true, false, LIMIT.RESERVATION - call('PTTL', KEYS.lock)
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
        if GIVEN.fence and not LIMIT.FENCES_OUTLIVE_LINES then
            call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
        end
        return {now, OUTCOME.CLAIMED, left}
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
