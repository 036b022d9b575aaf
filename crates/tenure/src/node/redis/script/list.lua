-- Tells who has which locks: among some of the server's keys, or of those that are named in KEYS.
-- Keys that are no locks are passed over. What is kept beside a lock is looked at only if details
-- are asked for: three more calls for each, while others wait. What is wrong with one key must not
-- keep the others from being told.
local call = redis.call
local now = call('TIME')
local told, keys = {now[1] * 1000000 + now[2], '0', 0, -1}, KEYS
if #KEYS == 0 then
    local page = call('SCAN', ARGV.cursor, 'MATCH', ARGV.pattern, 'COUNT', ARGV.count)
    told[2], keys = page[1], page[2]
    -- Who may not ask does not learn how many there are.
    local size = redis.pcall('DBSIZE')
    told[4] = type(size) == 'number' and size or -1
end
for _, key in ipairs(keys) do
    -- What we keep beside the locks is none.
    local owner, count = '', -1
    if string.sub(key, 1, 7) ~= 'tenure~' then
        -- Of another client's value, which may be long, the beginning is enough.
        owner = name_of(redis.pcall('GETRANGE', key, 0, 127))
    end
    if type(owner) == 'table' then
        -- A hash that has an end and counts is a reentrant lock, ours or Redisson's.
        local field = redis.pcall('HSCAN', key, 0, 'COUNT', 1)[2] or {}
        owner, count = call('PTTL', key) > 0 and tonumber(field[2]) and field[1] or '', 0
    end
    if owner ~= '' then
        local fence, label, waiters, holds = '', '', -1, -1
        if GIVEN.detailed then
            fence, label, waiters, holds = details_of(key, owner, count, told[1])
        end
        for _, part in ipairs({key, owner, call('PTTL', key), count, fence, label, waiters, holds}) do
            told[#told + 1] = part
        end
    end
end
local done = call('TIME')
told[3] = done[1] * 1000000 + done[2] - told[1]
return told
