-- Tells who has which of several locks, as list.lua does.
--
-- KEYS: locks
local now = redis.call('TIME')
local told = {now[1] * 1000000 + now[2], '0'}
for _, key in ipairs(KEYS) do
    local owner, count = name_of(redis.pcall('GETRANGE', key, 0, 127)), -1
    if type(owner) == 'table' then
        local field = redis.pcall('HSCAN', key, 0, 'COUNT', 1)[2] or {}
        owner, count = field[1] or 'unknown', 0
    end
    if owner ~= '' then
        told[#told + 1] = key
        told[#told + 1] = owner
        told[#told + 1] = redis.call('PTTL', key)
        told[#told + 1] = count
    end
end
return told
