-- A session of Neovim with prelet-ls: diagnostics, formatting and a rename, as a user would do them. It writes what it
-- sees to standard output.
local function fail(text)
  io.stdout:write('failed: ' .. text .. '\n')
  vim.cmd('cquit 1')
end

local function wait(what, condition)
  if not vim.wait(60000, condition, 50) then fail('timed out waiting for ' .. what) end
end

local config = { name = 'prelet', cmd = { vim.env.PRELET_LS }, root_dir = vim.fn.getcwd() }
if vim.lsp.start then
  vim.lsp.start(config)
else -- before 0.8
  local id = vim.lsp.start_client(config)
  wait('the server', function() return vim.lsp.get_client_by_id(id).initialized end)
  vim.lsp.buf_attach_client(0, id)
end
wait('the server', function() return #vim.lsp.buf_get_clients(0) > 0 end)

vim.fn.setline(8, '  rack=split("-", var.zoen)[1]')
wait('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
local found = vim.diagnostic.get(0)[1]
io.stdout:write('diagnostic: ' .. (found.lnum + 1) .. ' ' .. found.message:gsub('\n.*', '') .. '\n')

vim.fn.setline(8, '  rack=split("-", var.zone)[1]')
wait('no diagnostics', function() return #vim.diagnostic.get(0) == 0 end)

local function ask(method, params)
  local replies = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, reply in pairs(replies or {}) do
    if reply.error then fail(method .. ': ' .. reply.error.message) end
    return reply.result
  end
  fail(method .. ': no reply')
end

local edits = ask('textDocument/formatting', vim.lsp.util.make_formatting_params({}))
vim.lsp.util.apply_text_edits(edits, 0, 'utf-16')
io.stdout:write('formatted: ' .. vim.fn.getline(8) .. '\n')

vim.fn.cursor(8, 5)
local params = vim.lsp.util.make_position_params(0, 'utf-16')
params.newName = 'row'
vim.lsp.util.apply_workspace_edit(ask('textDocument/rename', params), 'utf-16')
io.stdout:write('renamed: ' .. vim.fn.getline(8) .. ', ' .. vim.trim(vim.fn.getline(23)) .. '\n')
vim.cmd('qall!')
