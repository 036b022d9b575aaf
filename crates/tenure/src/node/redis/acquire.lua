-- Sets the lock if it is free or set aside for us, the node's record is the one that the client knows, and the fence is a
-- new highest. If it is not free, and a ticket is given, gets in line.
-- KEYS: lock, fence, queue of fences by their end, record; with a ticket or label also: waiters in line, label, what is there
--       while those in line are not given the lock
-- ARGV: owner, node ttl in ms, fence ('' for none), when it is forgotten in ms, nonce, what is kept behind the fence: a colon
--       and the beginning of the nonce; then, if needed:
--       1 if the server does not tell by itself that the record has changed (else the record is looked at for names whose last
--       fence was not granted in the life of this nonce), ticket ('' for none), 1 to get in line only behind everybody who is
--       there, label ('' for none)
-- SLACK, AGE: how far the fence may be ahead of the node's clock and behind it, in us
-- RESERVED, RESERVATION, QUEUE_LIFE, WAITERS_MAX, LABEL_LIFE: as in queue.lua. All of these are set in a line before this
-- Granted: the node's time in microseconds; if somebody may be in line, that time, 0 and the first ticket ('' if none or
-- not looked at). Else that time and why not:
--   1, time left in ms, lowest fence: held   2, lowest fence: fence too small   3: fence too large   4: another record
--   5, time left in ms, lowest fence: set aside for another   6, last ticket's number: others are in line already
--   With a ticket, 1 and 5 have no lowest fence (''), but: how many are ahead, how many wait, the holder's label ('' for none)
local call = redis.call
local ticket = ARGV[8] ~= '' and ARGV[8]
local known = ARGV[7] ~= '1' or call('GETRANGE', KEYS[4], 0, 15) == ARGV[5]
-- Who had it before: nobody, and it is set.
local owner = known and call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
local aside = ticket and owner == RESERVED .. ticket
if aside then
    call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    owner = false
end
local open = ticket and known and not owner and not aside and call('PTTL', KEYS[7]) or -2
if open >= 0 then
    -- As if it were set aside, for those outside the line.
    call('DEL', KEYS[1])
    owner = RESERVED
end
if known and not owner then
    -- Cheaper than asking for the time.
    local now = (call('PEXPIRETIME', KEYS[1]) - ARGV[2]) * 1000
    local queued = false
    if ARGV[3] ~= '' then
        local fence, last, highest = tonumber(ARGV[3]), nil, nil
        if fence > now - AGE and fence <= now + SLACK then
            -- Others are in line behind whom it was set aside for, so the mark stays without a look at the line.
            last = call('SET', KEYS[2], ARGV[3] .. ARGV[6] .. (aside and '+' or ''), 'PXAT', ARGV[4], 'GET')
            local life = last and string.find(last, ARGV[6], 1, true)
            if life then
                highest = tonumber(string.sub(last, 1, life - 1))
            elseif last then
                highest = tonumber(string.match(last, '^%d+'))
            end
            -- A mark behind it: somebody may be in line.
            queued = last and string.byte(last, -1) == 43
            -- Nobody is told when databases change places: the fences that are here then are of another life.
            if not life and ARGV[7] ~= '1' and ARGV[5] ~= '' and call('GETRANGE', KEYS[4], 0, 15) ~= ARGV[5] then
                call('DEL', KEYS[1], KEYS[2])
                if last then
                    local more = highest > 0 and math.floor(highest / 1000) - math.floor(fence / 1000) or 0
                    call('SET', KEYS[2], last, 'PXAT', ARGV[4] + more)
                end
                return {now, 4}
            end
            if not last or highest == 0 then
                call('RPUSH', KEYS[3], ARGV[4] .. ':' .. KEYS[2])
            elseif highest >= fence then
                -- The larger one stays, for as long as it would have.
                call('SET', KEYS[2], last, 'PXAT', ARGV[4] + math.floor(highest / 1000) - math.floor(fence / 1000))
                fence = false
            end
        else
            last = call('GET', KEYS[2])
            highest = last and tonumber(string.match(last, '^%d+'))
            fence = false
        end
        if not fence then
            if aside then
                call('SET', KEYS[1], RESERVED .. ticket, 'PX', RESERVATION)
            else
                call('DEL', KEYS[1])
            end
            if tonumber(ARGV[3]) > now + SLACK then
                return {now, 3}
            end
            return {now, 2, string.format('%.0f', math.max(highest or 0, now - AGE))}
        end
    end
    if ARGV[10] and ARGV[10] ~= '' then
        call('SET', KEYS[6], ARGV[1] .. ' ' .. ARGV[10], 'PX', LABEL_LIFE)
    end
    local first = ''
    if aside then
        queued = false
        if ARGV[3] ~= '' and 2 * AGE < 1000 * tonumber(QUEUE_LIFE) then
            call('PEXPIRE', KEYS[2], QUEUE_LIFE, 'GT')
        end
    elseif ticket then
        call('ZREM', KEYS[5], ticket)
        first = call('ZRANGE', KEYS[5], 0, 0)[1]
        queued = first
    end
    if not queued then
        return now
    end
    if ARGV[3] ~= '' then
        call('SET', KEYS[2], ARGV[3] .. ARGV[6] .. '+', 'KEEPTTL')
        call('PEXPIRE', KEYS[2], QUEUE_LIFE, 'GT')
    end
    return {now, 0, first}
end
local now = call('TIME')
now = now[1] * 1000000 + now[2]
if not known then
    return {now, 4}
end
-- Whose it is, also if it was put back: then it is not what this owner's acquire has set.
local name = string.sub(owner, 41, 41) == '~' and string.match(owner, '^(%x+)~%d+$') or owner
local last = (ARGV[3] ~= '' or ticket) and call('GET', KEYS[2])
local lowest = ''
if ARGV[3] ~= '' and not (ticket and name ~= ARGV[1]) then
    local highest = last and string.match(last, '^%d+')
    -- Asked again, because the first answer was lost. With another fence it is not the same question.
    if owner == ARGV[1] and highest == ARGV[3] then
        return now
    end
    lowest = string.format('%.0f', math.max(tonumber(highest or 0), now - AGE))
elseif owner == ARGV[1] then
    return now
end
local why = string.sub(owner, 1, #RESERVED) == RESERVED and 5 or 1
local left = open >= 0 and open or call('PTTL', KEYS[1])
if not ticket or name == ARGV[1] then
    return {now, why, left, lowest}
end
local number = string.match(ticket, '^%d+')
local waiters = call('ZCARD', KEYS[5])
local rank = waiters
if ARGV[9] == '1' then
    local tail = waiters > 0 and string.match(call('ZRANGE', KEYS[5], -1, -1)[1], '^%d+')
    if tail and tonumber(tail) >= tonumber(number) and not call('ZSCORE', KEYS[5], ticket) then
        return {now, 6, tail}
    end
end
if waiters < WAITERS_MAX then
    waiters = waiters + call('ZADD', KEYS[5], number, ticket)
end
-- Who has come last is last.
if ARGV[9] ~= '1' or waiters == rank then
    rank = call('ZRANK', KEYS[5], ticket) or waiters
end
-- Now and then is enough.
if ARGV[9] ~= '1' or waiters == 1 or string.sub(number, -2) < '05' then
    call('PEXPIRE', KEYS[5], QUEUE_LIFE)
end
if not last then
    call('SET', KEYS[2], '0+', 'PX', QUEUE_LIFE)
elseif string.sub(last, -1) ~= '+' then
    call('SET', KEYS[2], last .. '+', 'KEEPTTL')
end
if 2 * AGE < 1000 * tonumber(QUEUE_LIFE) then
    -- The mark lives as long as the line does.
    call('PEXPIRE', KEYS[2], QUEUE_LIFE, 'GT')
end
local label = call('GET', KEYS[6])
label = label and string.sub(label, 1, #name + 1) == name .. ' ' and string.sub(label, #name + 2) or ''
return {now, why, left, lowest, rank, waiters, label}
