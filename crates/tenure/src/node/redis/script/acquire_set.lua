-- Acquires several locks, all or none: each as `acquire`, the text of acquire.lua and refuse.lua,
-- does, after all of them were looked at. It gets the same arguments.
--
-- KEYS: fences, record; then of each lock: itself, its fence, line, label and opening
local call, ticket, fence = redis.call, GIVEN.ticket, GIVEN.fence and tonumber(ARGV.fence)
local number, client = string.match(ticket or '', '^(%d+):(.*)$')
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function keys_from(first)
    return {KEYS[first], KEYS[first + 1], KEYS[1], KEYS[2], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4]}
end

-- 1. Nothing is granted in a life of the node's memory that the client does not know.
if GIVEN.nonce and call('GETRANGE', KEYS[2], 0, 15) ~= ARGV.nonce then
    return {now, OUTCOME.STRANGER}
end

-- 2. One that is not free refuses, and whoever waits gets in line for it; if it is in line for one
--    of them already, it stays there. What is set aside for somebody with a larger ticket is free:
--    else those who want several would keep them from each other.
local blocked, displaced, is_behind, highest = nil, {}, false, 0
for first = 3, #KEYS, 5 do
    local holder, is_ours = redis.pcall('GET', KEYS[first]), false
    local is_open = ticket and call('EXISTS', KEYS[first + 4]) == 1
    local is_free = not holder and not is_open
    local last = fence and tonumber(string.match(call('GET', KEYS[first + 1]) or '', '^%d+') or 0)
    if holder == ARGV.owner then
        is_ours = not fence or last == fence
        is_free = is_ours
    elseif type(holder) == 'string' and ticket and string.sub(holder, 1, #LIMIT.RESERVED) == LIMIT.RESERVED then
        local other = string.sub(holder, 1 + #LIMIT.RESERVED)
        local its_number, its_client = string.match(other, '^(%d+):(%x+)$')
        its_number = tonumber(its_number)
        is_free = other == ticket
        if its_number and not is_free and not is_open and (its_number > tonumber(number)
            or its_number == tonumber(number) and its_client > client) then
            is_free, displaced[first] = true, other
        end
    end
    if not is_free then
        local waits = ticket and redis.pcall('ZSCORE', KEYS[first + 2], ticket)
        if type(waits) == 'string' then
            return acquire(keys_from(first), ARGV)
        end
        blocked = blocked or first
    elseif fence and not is_ours then
        highest = math.max(highest, last)
        is_behind = is_behind or last >= fence
    end
end

if blocked then
    return acquire(keys_from(blocked), ARGV)
end

-- 3. One fence is for all of them: it has to be larger than the last one of each. Locks count in
--    milliseconds.
if fence and fence > now - now % 1000 + LIMIT.SLACK then
    return {now, OUTCOME.AHEAD}
elseif fence and (is_behind or fence <= now - LIMIT.AGE) then
    return {now, OUTCOME.BEHIND, string.format('%.0f', math.max(highest, now - LIMIT.AGE))}
end

-- 4. Grant them. Who was displaced gets back in line. All of them could be had when the last one
--    was passed on to us, if any was.
local passed_on
for first = 3, #KEYS, 5 do
    local other = displaced[first]
    if other then
        call('DEL', KEYS[first])
        line_up(KEYS[first + 2], KEYS[first + 1], other)
    end
    local said = acquire(keys_from(first), ARGV)
    if type(said) == 'table' and said[2] == OUTCOME.CLAIMED then
        passed_on = math.min(passed_on or said[3], said[3])
    elseif type(said) == 'table' and (said.err or said[2] ~= OUTCOME.GRANTED) then
        -- A server that will not write. What was set is given back, as after any error.
        return said.err and said or {err = 'ERR a lock that was free is not'}
    end
end
return passed_on and {now, OUTCOME.CLAIMED, passed_on} or now
