-- Shares the lock with others who do so, if it is free, shared or set aside for this waiter. It
-- gives way to those in line who want it alone, if it says so. What is kept: beside the lock, which
-- says that it is shared and lives as long as the last hold, each hold with its end; those that
-- were put back with the time from which they count; and beside the last fence the last one of
-- somebody who did not share the lock, as long as the two belong together.
local call, ticket, left = redis.call, GIVEN.ticket, nil
local holds, healed = 'tenure~holds:{' .. KEYS.lock .. '}', 'tenure~healed:{' .. KEYS.lock .. '}'
local reads, readers = 'tenure~reads:{' .. KEYS.lock .. '}', 'tenure~readers:{' .. KEYS.lock .. '}'
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local ms = math.floor(now_us / 1000)

-- 1. Nothing is granted in a life of the node's memory that the client does not know.
if GIVEN.looks_at_record and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
    return {now_us, OUTCOME.STRANGER}
end

-- 2. Who has it, and whether that is in our way.
local holder = redis.pcall('GET', KEYS.lock)
if type(holder) == 'table' then
    return {now_us, OUTCOME.OTHER_KIND, call('TYPE', KEYS.lock).ok}
end
local was_aside = ticket and holder == LIMIT.RESERVED .. ticket
local joins = holder == LIMIT.SHARED
local is_free = joins or was_aside or not holder
if joins then
    call('ZREMRANGEBYSCORE', holds, '-inf', ms - 1)
    if call('ZSCORE', holds, ARGV.owner) then
        if call('HEXISTS', healed, ARGV.owner) == 0 then
            return now_us
        end
        -- What was put back is not what was asked for.
        ticket, is_free = false, false
    elseif GIVEN.gives_way and call('ZCARD', KEYS.line) > call('ZCARD', readers) then
        is_free = false
    end
elseif ticket and not holder then
    left = call('PTTL', KEYS.open)
    if left >= 0 then
        holder, is_free = LIMIT.RESERVED, false
    end
end

-- 3. Promise the fence and share the lock.
if is_free then
    local fence, last = tonumber(ARGV.fence), GIVEN.fence and call('GET', KEYS.fence)
    local highest, top, alone = last and tonumber(string.match(last, '^%d+')) or 0, nil, nil
    if fence then
        local life = last and string.find(last, ARGV.life, 1, true)
        top, alone = string.match(call('GET', reads) or '', '^(%d+)/(%d+)$')
        alone = top and tonumber(top) == highest and tonumber(alone) or highest
        local outcome
        if fence > ms * 1000 + LIMIT.SLACK then
            outcome = OUTCOME.AHEAD
        elseif fence <= math.max(alone, ms * 1000 - LIMIT.AGE) then
            outcome = OUTCOME.BEHIND
        elseif not life and not GIVEN.looks_at_record and GIVEN.nonce
            and call('GETRANGE', KEYS.record, 0, 15) ~= ARGV.nonce then
            outcome = OUTCOME.STRANGER
        end
        if outcome then
            if was_aside then
                call('SET', KEYS.lock, holder, 'PX', LIMIT.RESERVATION)
            end
            if outcome ~= OUTCOME.BEHIND then
                return {now_us, outcome}
            end
            return {now_us, outcome, string.format('%.0f', math.max(highest, now_us - LIMIT.AGE))}
        end
    end
    if ticket and not was_aside then
        call('ZREM', KEYS.line, ticket)
        call('ZREM', readers, ticket)
    end
    if fence then
        local queued = last and string.byte(last, -1) == 43
        if was_aside then
            queued = true
        elseif ticket then
            queued = call('EXISTS', KEYS.line) == 1
        end
        local kept = fence > highest and ARGV.fence .. ARGV.life or string.gsub(last, '%+$', '')
        kept = kept .. (queued and '+' or '')
        if last then
            call('SET', KEYS.fence, kept, 'KEEPTTL')
            call('PEXPIREAT', KEYS.fence, ARGV.ends, 'GT')
        else
            call('SET', KEYS.fence, kept, 'PXAT', ARGV.ends)
        end
        if highest == 0 then
            call('RPUSH', KEYS.fences, ARGV.ends .. ':' .. KEYS.fence)
        end
        if queued then
            call('PEXPIRE', KEYS.fence, LIMIT.LINE_RETENTION, 'GT')
        end
        top = string.format('%.0f/%.0f', math.max(highest, fence), alone)
        -- As long as the fence, or longer: without it this means nothing.
        call('SET', reads, top, 'PXAT', string.format('%.0f', ARGV.ends + LIMIT.LINE_RETENTION))
    end
    if not joins then
        call('DEL', holds, healed)
    end
    call('ZADD', holds, ms + ARGV.ttl, ARGV.owner)
    local last_end = call('ZRANGE', holds, -1, -1, 'WITHSCORES')[2]
    call('SET', KEYS.lock, LIMIT.SHARED, 'PXAT', last_end)
    call('PEXPIREAT', holds, last_end + 1000)
    if GIVEN.label then
        call('SET', KEYS.label, ARGV.owner .. ' ' .. ARGV.label, 'PX', LIMIT.LABEL_RETENTION)
    end
    return now_us
end
