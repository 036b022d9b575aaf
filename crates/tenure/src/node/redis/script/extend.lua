-- Lengthens the life of each lock that is its owner's; never shortens it.
--
-- KEYS: locks   ARGV: for each lock its owner and node ttl in ms
--
-- All granted: the node's time in microseconds. Else that time, and for each lock: -1 if it was
-- lengthened, -2 if nobody has it, -3 if another has it without end, the time in ms for which
-- another has it, or the server's error; -3 less the time in ms for which it does not count yet, if
-- it was lengthened and had been put back.
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local told
for i, lock in ipairs(KEYS) do
    -- What is wrong with one of them must not stop the script: the others are to be lengthened. A
    -- key of another kind is another's.
    local holder, owner, ttl = redis.pcall('GET', lock), ARGV[2 * i - 1], ARGV[2 * i]
    if holder == owner then
        call('PEXPIRE', lock, ttl, 'GT')
    else
        local ours = type(holder) == 'string' and string.sub(holder, 1, 41) == owner .. '~'
        local from = ours and string.match(holder, '^%d+$', 42)
        local left
        if from then
            call('PEXPIRE', lock, ttl, 'GT')
            left = math.floor(now / 1000) - from
            left = left < 0 and left - 3 or nil
        else
            left = holder and call('PTTL', lock) or -2
            if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
                left = holder.err
            end
            left = left == -1 and -3 or left
        end
        if left then
            told = told or {now}
            told[i + 1] = left
        end
    end
end
if told then
    for i = 2, #KEYS + 1 do
        told[i] = told[i] or -1
    end
end
return told or now
