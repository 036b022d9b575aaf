-- Acquires several locks, each as `acquire`, the text of acquire.lua, does without a ticket or
-- label. Nearly always the lock is free and the fence larger than the last one: that is done right
-- here, on trial, and taken back where it was wrong. Then, as for anything else, `acquire` finds
-- out. What is wrong with one lock must not stop the others. Every look at a key, every text made
-- here and every argument costs as much as half a command: so nothing is asked before it is
-- written, what is the same for all is told once, and the fence comes as it is kept.
--
-- KEYS: fences, record; the locks; then the fence of each
--
-- ARGV: nonce, life, the smallest and the largest fence, when the last of them ends; then the
-- owners; then the fence of each with the life behind it; then the ttl of all, or one of each
--
-- The node's time if all were granted and nobody may be in line. Else for each what it answers.
local call, find, sub = redis.pcall, string.find, string.sub
local count, life, ends, time = #KEYS / 2 - 1, ARGV[2], ARGV[5], redis.call('TIME')
local ttls, now, knows_life = 5 + 2 * count, time[1] * 1000000 + time[2], nil
local smallest, one_ttl = tonumber(ARGV[3]), not ARGV[ttls + 2] and ARGV[ttls + 1]
local are_near = tonumber(ARGV[4]) <= now + LIMIT.SLACK and smallest > now - LIMIT.AGE
local told, entries, listed, all = {}, {KEYS[1], ends .. ':'}, {}, true
for i = 1, count do
    local lock, fence_key, owner, kept = KEYS[2 + i], KEYS[2 + count + i], ARGV[5 + i], ARGV[5 + count + i]
    local ttl, answer = one_ttl or ARGV[ttls + i], nil
    if are_near and not call('SET', lock, owner, 'NX', 'GET', 'PX', ttl) then
        local last, highest = call('SET', fence_key, kept, 'PXAT', ends, 'GET'), nil
        if not last then
            if knows_life == nil then
                knows_life = call('GETRANGE', KEYS[2], 0, 15) == ARGV[1]
            end
            if knows_life then
                entries[#entries + 1], listed[#listed + 1], answer = fence_key, i, now
            end
        elseif type(last) == 'table' then
            answer = last
        else
            -- With a mark behind the life somebody may be in line.
            local place = find(last, life, 1, true)
            highest = place and tonumber(sub(last, 1, place - 1)) or tonumber(string.match(last, '^%d+'))
            answer = highest and highest < smallest and place == #last - #life + 1 and now
        end
        if not answer then
            call('DEL', lock)
            -- What was there stays, for as long as it would have, or a little longer.
            if last then
                local fence = tonumber(sub(kept, 1, -1 - #life))
                local longer = (highest or 0) > 0 and math.floor(highest / 1000) - math.floor(fence / 1000) or 0
                call('SET', fence_key, last, 'PXAT', ends + longer)
            else
                call('DEL', fence_key)
            end
        end
    end
    if not answer then
        local keys = {lock, fence_key, KEYS[1], KEYS[2]}
        local arguments = {owner, ttl, sub(kept, 1, -1 - #life), ends, ARGV[1], life}
        local done, said = pcall(acquire, keys, arguments)
        answer = (done or type(said) == 'table') and said or {err = said}
    end
    all = all and answer == now
    told[i] = answer
end
if listed[1] then
    -- A lock whose fence nobody would free is not granted: it is given back, as after any error.
    local failure = call('RPUSH', unpack(entries))
    if type(failure) == 'table' then
        all = false
        for _, i in ipairs(listed) do
            told[i] = failure
        end
    end
end
return all and now or told
