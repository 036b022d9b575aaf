-- Ends several locks, each as `release`, the text of release.lua, does without a ticket or label:
-- the first in line is next.
--
-- KEYS: the locks; then the line of each
--
-- ARGV: the owner of each
--
-- DONE if each was its owner's and nobody is in line for it. Else for each what it answers.
local count = #ARGV
local owners, all = redis.call('MGET', unpack(KEYS, 1, count)), true
for i = 1, count do
    all = all and owners[i] == ARGV[i]
end
if all and redis.call('EXISTS', unpack(KEYS, count + 1)) == 0 then
    redis.call('DEL', unpack(KEYS, 1, count))
    return OUTCOME.DONE
end
local told = {}
for i = 1, count do
    -- Rarely needed, and dear as a key of each: the opening is beside the line.
    local line = KEYS[count + i]
    local open = 'tenure~open:' .. string.sub(line, #'tenure~queue:' + 1)
    -- What is wrong with one of them must not stop the others.
    local done, answer = pcall(release, {KEYS[i], line, open}, {ARGV[i]})
    if not done and type(answer) ~= 'table' then
        answer = {err = answer}
    end
    told[i] = answer
end
return told
