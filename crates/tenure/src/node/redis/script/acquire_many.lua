-- Acquires several locks, each as `acquire`, the text of acquire.lua, does without a ticket or
-- label. Nearly always the lock is free and the fence larger than the last one: that is done right
-- here. Whatever else it is, `acquire` finds out. What is wrong with one lock must not stop the
-- others.
--
-- KEYS: fences, record; the locks; then the fence of each
--
-- ARGV: nonce, life; then owner, ttl, fence and its end of each
--
-- The node's time if all were granted and nobody may be in line. Else for each what it answers.
local call, find, sub, byte = redis.pcall, string.find, string.sub, string.byte
local count, life, time = #KEYS / 2 - 1, ARGV[2], redis.call('TIME')
local now, knows_life = time[1] * 1000000 + time[2], nil
local lasts = redis.call('MGET', unpack(KEYS, 3 + count))
local told, entries, listed, all = {}, {}, {}, true
for i = 1, count do
    local lock, fence_key, a = KEYS[2 + i], KEYS[2 + count + i], 4 * i - 1
    local owner, ttl, fence, ends = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
    local number, last, answer, is_larger = tonumber(fence), lasts[i], nil, false
    if last then
        -- 43: a plus, the mark that somebody may be in line.
        local place = find(last, life, 1, true)
        is_larger = place and byte(last, -1) ~= 43 and number > tonumber(sub(last, 1, place - 1))
    else
        if knows_life == nil then
            knows_life = call('GETRANGE', KEYS[2], 0, 15) == ARGV[1]
        end
        is_larger = knows_life
    end
    if is_larger and number <= now + LIMIT.SLACK and number > now - LIMIT.AGE then
        local holder = call('SET', lock, owner, 'NX', 'GET', 'PX', ttl)
        if not holder then
            local before = call('SET', fence_key, fence .. life, 'PXAT', ends, 'GET')
            answer = type(before) == 'table' and before or now
            if not before then
                entries[#entries + 1], listed[#listed + 1] = ends .. ':' .. fence_key, i
            end
        end
    end
    if not answer then
        local keys, arguments = {lock, fence_key, KEYS[1], KEYS[2]}, {owner, ttl, fence, ends, ARGV[1], life}
        local done, said = pcall(acquire, keys, arguments)
        answer = (done or type(said) == 'table') and said or {err = said}
    end
    all = all and answer == now
    told[i] = answer
end
if entries[1] then
    -- A lock whose fence nobody would free is not granted: it is given back, as after any error.
    local failure = call('RPUSH', KEYS[1], unpack(entries))
    if type(failure) == 'table' then
        all = false
        for _, i in ipairs(listed) do
            told[i] = failure
        end
    end
end
return all and now or told
