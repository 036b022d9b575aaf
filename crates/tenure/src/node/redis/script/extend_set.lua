-- Lengthens the life of several locks if all of them are the owner's, and none if one is not.
--
-- KEYS: locks   ARGV: owner, node ttl in ms
--
-- As extend.lua answers for one lock.
local call = redis.call
local now = call('TIME')
now = now[1] * 1000000 + now[2]
local from = 0
for _, lock in ipairs(KEYS) do
    local holder = redis.pcall('GET', lock)
    local healed = type(holder) == 'string' and string.sub(holder, 1, 41) == ARGV[1] .. '~'
        and string.match(holder, '^%d+$', 42)
    if healed then
        from = math.max(from, tonumber(healed))
    elseif holder ~= ARGV[1] then
        if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
            return holder
        end
        local left = holder and call('PTTL', lock) or -2
        return {now, left == -1 and -3 or left}
    end
end
for _, lock in ipairs(KEYS) do
    call('PEXPIRE', lock, ARGV[2], 'GT')
end
local left = math.floor(now / 1000) - from
return left < 0 and {now, left - 3} or now
